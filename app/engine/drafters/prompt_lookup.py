"""Prompt lookup: what followed the last time the text ended like this? (A. Saxena, Prompt Lookup Decoding, 2023)"""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.drafters import Draft, Drafting, Limit
from app.records import Source

SHORTEST = 2
"""Single tokens repeat by chance too often to be worth a draft."""

MOST_UPDATES = 16
"""How many of the matches that end at a new token are told its place, the longest first; see RepeatIndex."""


class PromptLookup:
    """Copies what followed the longest earlier occurrence of the text's end."""

    source: Source = "lookup"
    model = None

    def __init__(self) -> None:
        self._index = RepeatIndex()

    def to_read(self, prompt: Sequence[int]) -> Sequence[int]:
        return ()

    def draft(self, sequence: Sequence[int], limit: Limit) -> Drafting:
        yield from ()  # there is no model to ask
        self._index.extend(sequence[len(self._index) :])
        count = limit("lookup")
        if count <= 0 or self._index.match_length < SHORTEST:
            return Draft()
        return Draft(_copy(sequence, self._index.continuation, count), "lookup")

    def crop(self, length: int) -> None:
        """Read no candidates."""


class RepeatIndex:
    """The longest suffix of a growing sequence that occurred before, in amortised constant time per token.

    A suffix automaton (Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985): each
    state is a set of substrings that end at the same places, its link leads to the longest suffix that ends at
    more of them. So the link of the state of the whole sequence is the longest suffix with an earlier
    occurrence. The place of the latest one is passed on along at most MOST_UPDATES links, which in a text that
    repeats one token on end would be as long as the text; a shorter match may then name an earlier place.
    """

    def __init__(self) -> None:
        self._next: list[dict[int, int]] = [{}]  # of each state: token -> state
        self._link: list[int] = [-1]
        self._length: list[int] = [0]  # of the longest substring in the state
        self._end: list[int] = [0]  # behind a late occurrence of it
        self._whole = 0  # the state of the whole sequence
        self.match_length = 0
        self.continuation = 0  # where the token behind the earlier occurrence stands

    def __len__(self) -> int:
        return self._length[self._whole]

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._append(token)

    def _append(self, token: int) -> None:
        state, end = self._whole, len(self) + 1
        new = self._add({}, end, end)
        while state >= 0 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        self._link[new] = 0 if state < 0 else self._suffix_state(state, token)
        self._whole = new
        matched = self._link[new]
        self.match_length, self.continuation = self._length[matched], self._end[matched]
        self._pass_on(matched, end)

    def _suffix_state(self, state: int, token: int) -> int:
        """The state of state's longest substring with `token` behind it, split off its state if need be."""
        follower = self._next[state][token]
        if self._length[follower] == self._length[state] + 1:
            return follower
        split = self._add(dict(self._next[follower]), self._length[state] + 1, self._end[follower])
        self._link[split] = self._link[follower]
        self._link[follower] = split
        while state >= 0 and self._next[state].get(token) == follower:
            self._next[state][token] = split
            state = self._link[state]
        return split

    def _add(self, following: dict[int, int], length: int, end: int) -> int:
        self._next.append(following)
        self._link.append(0)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1

    def _pass_on(self, state: int, end: int) -> None:
        for _ in range(MOST_UPDATES):
            if state <= 0:
                return
            self._end[state] = end
            state = self._link[state]


def _copy(sequence: Sequence[int], start: int, count: int) -> tuple[int, ...]:
    """`count` tokens from `start` on; where they reach the end, the repetition is taken to go on."""
    period = len(sequence) - start
    return tuple(sequence[start + offset % period] for offset in range(count))
