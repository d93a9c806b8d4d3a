"""No draft at all: every round is plain generation."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

from app.engine.drafters import Draft


class NoDrafter:
    def draft(self, sequence: Sequence[int], count: int, stop: Event) -> Draft:
        return Draft()

    def crop(self, length: int) -> None:
        """Read nothing."""
