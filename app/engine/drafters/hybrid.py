"""Lookup where the text repeats itself, a model where it does not. Each source's acceptance is tracked apart."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.drafters import Drafter, Drafting, Limit
from app.engine.drafters.prompt_lookup import PromptLookup


class HybridDrafter:
    """A copy costs nothing and may be long, so it comes first; `limit` of 0 for lookups leaves all to the model."""

    def __init__(self, drafter: Drafter) -> None:
        self.source = drafter.source
        self.model = drafter.model
        self._lookup = PromptLookup()
        self._drafter = drafter

    def to_read(self, prompt: Sequence[int]) -> Sequence[int]:
        return self._drafter.to_read(prompt)

    def draft(self, sequence: Sequence[int], limit: Limit) -> Drafting:
        copied = yield from self._lookup.draft(sequence, limit)
        if copied.ids:
            return copied
        return (yield from self._drafter.draft(sequence, limit))

    def crop(self, length: int) -> None:
        self._drafter.crop(length)
