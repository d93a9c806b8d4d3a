"""A smaller model drafts token by token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from app.engine.cached_model import CachedModel
from app.engine.drafters import Draft, Drafting, Limit
from app.engine.sampling import Noise, Sampler, draw
from app.records import Source


class AssistantDrafter:
    """Drafts with an assistant model: its first choices, or draws from its distribution when `noise` is given.

    It feeds whatever its cache lacks: usually the one token the last round ended with, two after a round
    in which every candidate was accepted, since the last of them was never fed. A draft ends behind an
    end-of-sequence token, and behind a candidate whose own probability is below `threshold`. That candidate
    stays: to drop a drawn token because it was unlikely would bias the text.
    """

    def __init__(
        self,
        assistant: CachedModel,
        sampler: Sampler,
        eos_ids: frozenset[int],
        noise: Noise | None,
        vocabulary_size: int,
        threshold: float = 0.0,
        source: Source = "assistant",
    ) -> None:
        self.model = assistant
        self._sampler = sampler
        self._eos_ids = eos_ids
        self._noise = noise
        self._lacking = vocabulary_size - assistant.vocabulary_size
        self._threshold = threshold
        self.source = source

    def to_read(self, prompt: Sequence[int]) -> Sequence[int]:
        """The prompt; nothing where it fills the context, since nothing could be drafted behind it."""
        return prompt if len(prompt) + 1 < self.model.context_length else ()

    def draft(self, sequence: Sequence[int], limit: Limit) -> Drafting:
        count = min(limit(self.source), self.model.context_length - len(sequence))
        ids: list[int] = []
        rows: list[torch.Tensor] = []  # each [vocab]
        unread = list(sequence[len(self.model.tokens) :])
        if count <= 0 or max(unread, default=0) >= self.model.vocabulary_size:
            return Draft()  # the target may write padding ids that the assistant does not have
        while len(ids) < count:
            logits = self._fit((yield unread))
            row = self._sampler.probabilities(logits[None], sequence, ids)[0]
            rows.append(row)
            ids.append(self._choose(row, len(sequence) + len(ids)))
            unread = ids[-1:]
            if ids[-1] in self._eos_ids or (self._threshold and float(row[ids[-1]]) < self._threshold):
                break
        return Draft(tuple(ids), self.source, torch.stack(rows), drawn=self._noise is not None)

    def crop(self, length: int) -> None:
        self.model.crop(length)

    def _fit(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [vocab] as wide as the target's: two models of one tokenizer may pad it differently."""
        return pad(logits, (0, self._lacking), value=-torch.inf) if self._lacking else logits

    def _choose(self, row: torch.Tensor, position: int) -> int:
        if self._noise is None:
            return int(row.argmax())
        return draw(row, self._noise("draft", position))
