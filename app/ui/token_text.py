"""Rounds as a run of coloured spans: what is drawn for each token, and which token is at a place in the text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from app.records import Kind, Round, Token


@dataclass(frozen=True, slots=True)
class Span:
    """One token as it stands in the text: `text` is what is drawn, a ghost's stand-in included."""

    kind: Kind
    text: str
    token: Token
    round: Round
    position: int  # in the reply for emitted tokens; for a ghost, the place it was drafted for

    @property
    def judged(self) -> bool:
        """False for the candidates behind the first rejected one: the target never looked at them."""
        return self.kind != "rejected" or self.token.target_probability is not None


def spans(this_round: Round) -> Iterator[Span]:
    """The round in reading order: accepted candidates, ghosts of the rejected ones, the target's own token."""
    for offset in range(this_round.num_accepted):
        token, piece = this_round.candidates[offset], this_round.pieces[offset]
        yield Span("accepted", piece, token, this_round, this_round.position + offset)
    behind = this_round.position + this_round.num_accepted
    if this_round.next_token is not None:  # after the end of the text a leftover draft is nobody's error
        for offset, token in enumerate(this_round.rejected):
            yield Span("rejected", ghost_text(token), token, this_round, behind + offset)
    if this_round.next_token is not None and this_round.next_kind is not None:
        yield Span(this_round.next_kind, this_round.pieces[-1], this_round.next_token, this_round, behind)


def ghost_text(token: Token) -> str:
    """A rejected token kept on its line: breaks and broken characters get a visible stand-in."""
    text = (
        token.text.replace("\r", "")
        .replace("\n", "↵")
        .replace("\t", "⇥")
        .replace("\N{REPLACEMENT CHARACTER}", "▯")
    )
    return text or "▯"


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
