"""Stand-ins with the faces of CachedModel and ChatText, small enough that every probability is known."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cache

import torch

from app.engine.cached_model import CachedModel, ModelPair
from app.engine.text import ChatText
from app.records import Message, PairSummary

Script = Callable[[Sequence[int]], torch.Tensor]
"""All tokens so far -> logits [vocab]."""


class ScriptedModel(CachedModel):
    """A model whose logits are a given function of the tokens it has read.

    It keeps the rules of a cache: it knows only what it was fed, and forgets what is cropped. `fed` records
    the tokens of every forward pass; `before_forward` is called with their count before each.
    """

    def __init__(self, script: Script, vocabulary: int, context_length: int = 10_000) -> None:
        self.tokens = []
        self.fed: list[list[int]] = []
        self.before_forward: Callable[[int], None] = lambda count: None
        self._script = script
        self._vocabulary = vocabulary
        self._context_length = context_length

    @property
    def context_length(self) -> int:
        return self._context_length

    @property
    def vocabulary_size(self) -> int:
        return self._vocabulary

    def forward(self, ids: Sequence[int], keep: int = 0) -> torch.Tensor:
        assert len(ids) > 0, "a forward pass over nothing"
        assert len(self.tokens) + len(ids) <= self._context_length, "fed beyond the context"
        assert all(0 <= each < self._vocabulary for each in ids), "fed an id outside its vocabulary"
        self.before_forward(len(ids))
        self.fed.append(list(ids))
        first = len(self.tokens)
        self.tokens.extend(ids)
        ends = range(first + 1, len(self.tokens) + 1)[-keep:]
        return torch.stack([self._script(self.tokens[:end]) for end in ends])

    def crop(self, length: int) -> None:
        del self.tokens[length:]

    num_layers = 3

    def exits_to(self, shallow: ScriptedModel) -> None:
        """Makes `shallow` what an early exit drafts with, whatever layer it leaves at."""
        self.first_layers = lambda count: shallow  # type: ignore[method-assign]

    def fork(self) -> ScriptedModel:
        other = copy.copy(self)
        other.tokens = list(self.tokens)
        return other


class NumberText(ChatText):
    """Token 7 reads "7 ": the prompt is written as numbers, and so is the reply."""

    def __init__(self) -> None:
        self._special_ids = frozenset()
        self._names = {}

    def encode(self, messages: Sequence[Message]) -> list[int]:
        return [int(word) for message in messages for word in message.content.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(f"{each} " for each in ids)


def last_two_tokens(seed: int, vocabulary: int, spread: float = 1.5) -> Script:
    """Random but fixed logits for every two last tokens."""
    generator = torch.Generator().manual_seed(seed)
    table = spread * torch.randn(vocabulary, vocabulary, vocabulary, generator=generator, dtype=torch.float64)
    return lambda tokens: table[tokens[-2] if len(tokens) > 1 else 0, tokens[-1]]


def mixed(script: Script, other: Script, weight: float) -> Script:
    """Between two scripts of the last two tokens: an assistant that agrees with its target in part."""

    @cache
    def blend(tokens: tuple[int, ...]) -> torch.Tensor:
        return (1 - weight) * script(tokens) + weight * other(tokens)

    return lambda tokens: blend(tuple(tokens[-2:]))


def recited(words: Sequence[int], vocabulary: int, shift: int = 0) -> Script:
    """Certain of one text: after i tokens comes words[i] (+ shift), whatever was read."""

    def script(tokens: Sequence[int]) -> torch.Tensor:
        following = words[len(tokens)] if len(tokens) < len(words) else 0
        logits = torch.zeros(vocabulary, dtype=torch.float64)
        logits[(following + shift) % vocabulary] = 5.0
        return logits

    return script


def scripted_pair(
    target: ScriptedModel, assistant: ScriptedModel | None = None, eos_ids: Sequence[int] = ()
) -> ModelPair:
    described = PairSummary("target", "assistant", "cpu", "float64", target.context_length)
    return ModelPair(target, assistant, NumberText(), frozenset(eos_ids), described)
