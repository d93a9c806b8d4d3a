"""How many tokens to draft in the next round."""

from __future__ import annotations

from typing import Protocol

from app.records import DraftSettings

LONGEST = 32
"""No schedule drafts more: the wider forward pass would cost more than an unbroken run could save."""


class DraftLength(Protocol):
    """A schedule: `current` is in force for the next round, `observe` learns from the last one."""

    current: int

    def observe(self, num_candidates: int, num_accepted: int) -> None: ...


class Constant:
    """The same number every round; 0 is plain generation."""

    def __init__(self, length: int) -> None:
        self.current = length

    def observe(self, num_candidates: int, num_accepted: int) -> None:
        """A constant learns nothing."""


class Heuristic:
    """Two more after a fully accepted draft, one fewer otherwise (transformers' "heuristic" schedule).

    A draft that was cut short, by the token budget or because nothing more was found, says nothing about
    longer ones and is passed over unless one of its candidates was rejected.
    """

    def __init__(self, length: int) -> None:
        self.current = length

    def observe(self, num_candidates: int, num_accepted: int) -> None:
        if num_accepted < num_candidates:
            self.current = max(1, self.current - 1)
        elif num_candidates == self.current:
            self.current = min(LONGEST, self.current + 2)


def make_draft_length(settings: DraftSettings) -> DraftLength:
    if settings.schedule == "heuristic" and settings.draft_length > 0:
        return Heuristic(settings.draft_length)
    return Constant(settings.draft_length)
