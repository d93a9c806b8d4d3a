"""No draft at all: every round is plain generation."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.drafters import Draft, Drafting, Limit
from app.records import Source


class NoDrafter:
    source: Source = "assistant"
    model = None

    def to_read(self, prompt: Sequence[int]) -> Sequence[int]:
        return ()

    def draft(self, sequence: Sequence[int], limit: Limit) -> Drafting:
        yield from ()  # there is no model to ask
        return Draft()

    def crop(self, length: int) -> None:
        """Read nothing."""
