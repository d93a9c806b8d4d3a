"""How many tokens to draft in the next round."""

from __future__ import annotations

from typing import Protocol

from app.engine.automatic import LONGEST, Automatic
from app.records import DraftSettings, Round, Source


class DraftLength(Protocol):
    """A schedule: `current` is in force for the next round, `observe` learns from the last one."""

    def current(self, source: Source) -> int: ...

    def observe(self, this_round: Round) -> None: ...


class Constant:
    """The same number every round; 0 is plain generation."""

    def __init__(self, length: int) -> None:
        self._length = length

    def current(self, source: Source) -> int:
        return self._length

    def observe(self, this_round: Round) -> None:
        """A constant learns nothing."""


class Heuristic:
    """Two more after a fully accepted draft, one fewer otherwise (transformers' "heuristic" schedule).

    A draft that was cut short, by the token budget or because nothing more was found, says nothing about
    longer ones and is passed over unless one of its candidates was rejected. Each source has its own length.
    """

    def __init__(self, length: int) -> None:
        self._start = length
        self._lengths: dict[Source, int] = {}

    def current(self, source: Source) -> int:
        return self._lengths.get(source, self._start)

    def observe(self, this_round: Round) -> None:
        if this_round.source is None:
            return
        length = self.current(this_round.source)
        num_candidates = len(this_round.candidates)
        if this_round.num_accepted < num_candidates:
            length = max(1, length - 1)
        elif num_candidates == length:
            length = min(LONGEST, length + 2)
        self._lengths[this_round.source] = length


def make_draft_length(settings: DraftSettings, learnt: dict[str, DraftLength]) -> DraftLength:
    """The schedule of `settings`; an automatic one is kept in `learnt`, by drafter, from one reply to the next.

    Under "confidence" the length is the most; the drafter itself stops earlier.
    """
    if settings.schedule == "automatic":
        return learnt.setdefault(settings.drafter, Automatic())
    if settings.schedule == "heuristic" and settings.draft_length > 0:
        return Heuristic(settings.draft_length)
    return Constant(settings.draft_length)
