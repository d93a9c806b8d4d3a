"""A model with the key-value cache of one sequence, and the loaded pair."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import torch
from transformers import Cache, DynamicCache

from app.engine.drafters.early_exit import first_layers, layers_of
from app.records import PairSummary

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from app.engine.draft_length import DraftLength
    from app.engine.text import ChatText


class CachedModel:
    """A causal language model that remembers the tokens it has read.

    `tokens` are the ids whose keys and values are in the cache, so what still has to be fed is never a
    matter of bookkeeping elsewhere. The cache keeps every layer at full length, also those with a sliding
    window: a cropped window could not be rolled back after a rejection. The attention mask still applies
    the window.
    """

    can_roll_back = True
    """Whether tokens can be taken back, as every rejection asks for."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.tokens: list[int] = []
        self.cache = self._make_cache()
        self.batches: bool | None = (
            None  # whether several sequences can share a pass; None until it was tried
        )
        self._first_layers: dict[int, CachedModel] = {}

    @property
    def context_length(self) -> int:
        """The longest sequence the model was made for, in tokens; a million where its configuration names none."""
        config = self.model.config.get_text_config()
        return int(getattr(config, "max_position_embeddings", None) or 1_000_000)

    @property
    def vocabulary_size(self) -> int:
        """The width of the logits: the tokenizer's vocabulary, and often some padding."""
        return int(self.model.config.get_text_config().vocab_size)

    @property
    def num_layers(self) -> int:
        """How many layers write text."""
        return len(layers_of(self.model)[1])

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], keep: int = 0) -> torch.Tensor:
        """Reads `ids` behind what is cached and returns the logits [keep or len(ids), vocab].

        Row i is the prediction after ids[i]; `keep` asks for the last rows only. Half-precision logits come
        back in float32, others in their own type.
        """
        input_ids = torch.tensor([ids], device=self.model.device)  # [1, len(ids)]
        try:
            logits = self._pass(input_ids, keep)
        except BaseException:
            # Some layers may hold the new keys and others not: nothing in the cache can be trusted now.
            self.crop(0)
            raise
        self.tokens.extend(ids)
        return widened(logits[0])

    def _pass(self, input_ids: torch.Tensor, keep: int) -> torch.Tensor:
        """Runs the model on new tokens [1, rows]; logits [1, keep or rows, vocab]."""
        output = self.model(input_ids=input_ids, cache=self.cache, use_cache=True, logits_to_keep=keep)
        logits: torch.Tensor = output.logits
        return logits

    def _make_cache(self) -> Cache:
        return DynamicCache()

    def together(
        self, models: Sequence[CachedModel], feeds: Sequence[Sequence[int]], keep: int = 0
    ) -> list[torch.Tensor]:
        """What each of `models`, this one among them, gives for its part of `feeds`: here one after another."""
        return [model.forward(ids, keep) for model, ids in zip(models, feeds, strict=True)]

    def crop(self, length: int) -> None:
        """Forgets everything behind the first `length` tokens; holds fewer already: does nothing."""
        surplus = len(self.tokens) - length
        if length == 0:
            self.cache = self._make_cache()
        elif surplus > 0:
            self.cache.crop(-surplus)
        del self.tokens[length:]

    def keep_prefix(self, tokens: Sequence[int]) -> int:
        """Crops to the longest common prefix with `tokens` and returns its length: an earlier turn is reused."""
        length = common_prefix(self.tokens, tokens)
        self.crop(length)
        return length

    def begin(self, prompt: Sequence[int]) -> list[int]:
        """The tokens that the reply to `prompt` is written behind: the prompt itself."""
        return list(prompt)

    def fork(self) -> Self:
        """Another sequence of the same model, which has read the same so far."""
        other = copy.copy(self)
        other.tokens = list(self.tokens)
        other.cache = copy.deepcopy(self.cache)
        return other

    def first_layers(self, count: int) -> CachedModel:
        """A model of the first `count` layers, made once: it shares the weights and has a cache of its own."""
        if count not in self._first_layers:
            self._first_layers[count] = self._make_first_layers(count)
        return self._first_layers[count]

    def _make_first_layers(self, count: int) -> CachedModel:
        return CachedModel(first_layers(self.model, count))


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    return next(
        (i for i, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs),
        min(len(one), len(other)),
    )


TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}
"""How far logits may be apart (relative, in the Euclidean norm) and still be rounding; 0.05 in half precision."""


def same_up_to_rounding(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether logits of the same shape are the same result of a model that computes in `dtype`."""
    error = (found - expected).norm() / expected.norm()
    return bool(error <= TOLERANCES.get(dtype, 0.05))


def widened(logits: torch.Tensor) -> torch.Tensor:
    """Logits precise enough to compute with: half precision becomes float32."""
    return logits if logits.dtype == torch.float64 else logits.float()


@dataclass(frozen=True, slots=True)
class ModelPair:
    """A loaded target, perhaps with its assistant, and the target's tokenizer.

    `assistant_text` is the assistant's own tokenizer where it has another one than the target. `schedules`
    keeps what an automatic draft length has learnt from one reply to the next.
    """

    target: CachedModel
    assistant: CachedModel | None
    text: ChatText
    eos_ids: frozenset[int]
    summary: PairSummary
    assistant_text: ChatText | None = None
    schedules: dict[str, DraftLength] = field(default_factory=dict)
