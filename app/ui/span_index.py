"""Which token is at a place in the text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from app.records import Kind
from app.spans import Span


class SpanIndex:
    """Finds the span at a character position; spans are only ever added or dropped at the end."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._spans: list[Span] = []
        self._end = 0

    def append(self, span: Span, end: int) -> None:
        """Adds a span behind the last one, reaching to the character position `end`."""
        self._starts.append(self._end)
        self._spans.append(span)
        self._end = end

    def at(self, position: int) -> Span | None:
        """The span that covers a position; a character completed by several tokens belongs to the last of them."""
        index = bisect_right(self._starts, position) - 1
        return self._spans[index] if index >= 0 and position < self._end else None

    def pop_round(self, index: int) -> tuple[int, list[Span]]:
        """Takes the spans of the round `index` off the end; returns where they began, and them."""
        first = len(self._spans)
        while first and self._spans[first - 1].round.index == index:
            first -= 1
        self._end = self._starts[first] if first < len(self._starts) else self._end
        taken = self._spans[first:]
        del self._spans[first:], self._starts[first:]
        return self._end, taken

    def ranges(self, kind: Kind) -> Iterator[tuple[int, int]]:
        """Start and end of every span of a kind."""
        ends = [*self._starts[1:], self._end]
        for start, end, span in zip(self._starts, ends, self._spans, strict=True):
            if span.kind == kind:
                yield start, end
