"""A smaller model drafts token by token."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import torch
from torch.nn.functional import pad

from app.engine.cached_model import CachedModel
from app.engine.drafters import Draft
from app.engine.sampling import Noise, Sampler, draw


class AssistantDrafter:
    """Drafts with an assistant model: its first choices, or draws from its distribution when `noise` is given.

    It feeds whatever its cache lacks: usually the one token the last round ended with, two after a round
    in which every candidate was accepted, since the last of them was never fed.
    """

    def __init__(
        self,
        assistant: CachedModel,
        sampler: Sampler,
        eos_ids: frozenset[int],
        noise: Noise | None,
        vocabulary_size: int,
    ) -> None:
        self._assistant = assistant
        self._sampler = sampler
        self._eos_ids = eos_ids
        self._noise = noise
        self._lacking = vocabulary_size - assistant.vocabulary_size

    def draft(self, sequence: Sequence[int], count: int, stop: Event) -> Draft:
        count = min(count, self._assistant.context_length - len(sequence))
        ids: list[int] = []
        rows: list[torch.Tensor] = []  # each [vocab]
        unread = list(sequence[len(self._assistant.tokens) :])
        if max(unread, default=0) >= self._assistant.vocabulary_size:
            return Draft()  # the target wrote one of its padding ids, which the assistant cannot read
        while len(ids) < count and not stop.is_set():
            row = self._sampler.probabilities(self._fit(self._assistant.forward(unread, keep=1)))[0]
            rows.append(row)
            ids.append(self._choose(row, len(sequence) + len(ids)))
            unread = ids[-1:]
            if ids[-1] in self._eos_ids:
                break
        return Draft(tuple(ids), torch.stack(rows) if rows else None, drawn=self._noise is not None)

    def crop(self, length: int) -> None:
        self._assistant.crop(length)

    def _fit(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [rows, vocab] as wide as the target's: two models of one tokenizer may pad it differently."""
        return pad(logits, (0, self._lacking), value=-torch.inf) if self._lacking else logits

    def _choose(self, row: torch.Tensor, position: int) -> int:
        if self._noise is None:
            return int(row.argmax())
        return draw(row, self._noise("draft", position))
