"""Prompt lookup: what followed the last time the text ended like this? (A. Saxena, Prompt Lookup Decoding, 2023)"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

from app.engine.drafters import Draft

LENGTHS = (4, 3, 2)
"""The n-grams it looks for, longest first. Single tokens repeat by chance too often to be worth a draft."""


class PromptLookup:
    """Copies the continuation of the latest earlier occurrence of the longest matching n-gram.

    Each token is indexed once, so a round costs the same in a long context. The sequence it is shown only
    ever grows: candidates are no part of it until they are accepted.
    """

    def __init__(self) -> None:
        self._indexed = 0
        self._latest: dict[tuple[int, ...], int] = {}  # n-gram -> where its continuation starts

    def draft(self, sequence: Sequence[int], count: int, stop: Event) -> Draft:
        self._index(sequence)
        starts = (self._latest.get(tuple(sequence[-length:])) for length in LENGTHS)
        start = next((start for start in starts if start is not None), None)
        return Draft() if start is None else Draft(_copy(sequence, start, count))

    def crop(self, length: int) -> None:
        """Read no candidates."""

    def _index(self, sequence: Sequence[int]) -> None:
        """Adds the n-grams that have a continuation by now: all but those at the very end."""
        for end in range(self._indexed, len(sequence)):
            for length in LENGTHS:
                if end >= length:
                    self._latest[tuple(sequence[end - length : end])] = end
        self._indexed = len(sequence)


def _copy(sequence: Sequence[int], start: int, count: int) -> tuple[int, ...]:
    """`count` tokens from `start` on; where they reach the end, the repetition is taken to go on."""
    period = len(sequence) - start
    return tuple(sequence[start + offset % period] for offset in range(count))
