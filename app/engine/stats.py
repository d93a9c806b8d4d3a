"""What the rounds add up to: acceptance, tokens per round, speed, and where the time went."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from itertools import zip_longest

from app.records import Round, Source


@dataclass(frozen=True, slots=True)
class PositionCount:
    """How often the candidate at one place in the draft was judged, and accepted."""

    judged: int = 0
    accepted: int = 0

    def plus(self, other: PositionCount) -> PositionCount:
        return PositionCount(self.judged + other.judged, self.accepted + other.accepted)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The figures of a reply so far. Speeds are cumulative and leave the prompt's prefill out."""

    num_rounds: int = 0
    num_emitted: int = 0
    num_candidates: int = 0
    num_judged: int = 0
    num_accepted: int = 0
    per_source: dict[Source, tuple[PositionCount, ...]] = field(default_factory=dict)
    draft_length: int | None = None  # in force in the latest round
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    decode_seconds: float = 0.0
    prefill_seconds: float = 0.0

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> Statistics:
        """The figures of these rounds together."""
        return reduce(cls.observe, rounds, cls())

    def observe(self, this_round: Round) -> Statistics:
        """The figures with one more round."""
        return Statistics(
            num_rounds=self.num_rounds + 1,
            num_emitted=self.num_emitted + len(this_round.emitted),
            num_candidates=self.num_candidates + len(this_round.candidates),
            num_judged=self.num_judged + this_round.num_judged,
            num_accepted=self.num_accepted + this_round.num_accepted,
            per_source=_count(self.per_source, this_round),
            draft_length=this_round.draft_length,
            draft_seconds=self.draft_seconds + this_round.draft_seconds,
            verify_seconds=self.verify_seconds + this_round.verify_seconds,
            decode_seconds=self.decode_seconds + this_round.seconds,
            prefill_seconds=self.prefill_seconds + this_round.prefill_seconds,
        )

    @property
    def per_position(self) -> tuple[PositionCount, ...]:
        """Of all sources together."""
        return reduce(_plus, self.per_source.values(), ())

    @property
    def by_source(self) -> dict[Source, PositionCount]:
        """Judged and accepted of each source, all positions together."""
        return {
            source: reduce(PositionCount.plus, counts, PositionCount())
            for source, counts in self.per_source.items()
        }

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / judged; None before the first candidate was judged."""
        return self.num_accepted / self.num_judged if self.num_judged else None

    @property
    def tokens_per_round(self) -> float | None:
        """emitted / rounds, plain rounds included."""
        return self.num_emitted / self.num_rounds if self.num_rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """emitted / seconds of decoding."""
        return self.num_emitted / self.decode_seconds if self.decode_seconds else None

    @property
    def time_shares(self) -> tuple[float, float, float]:
        """The shares of draft, verify and rest in the decoding time; they add up to 1 once there is any."""
        if not self.decode_seconds:
            return 0.0, 0.0, 0.0
        draft = self.draft_seconds / self.decode_seconds
        verify = self.verify_seconds / self.decode_seconds
        return draft, verify, max(0.0, 1.0 - draft - verify)


Counts = tuple[PositionCount, ...]


def _count(so_far: dict[Source, Counts], this_round: Round) -> dict[Source, Counts]:
    """The counts of each source with one more round."""
    source = this_round.source
    if source is None:
        return so_far
    judged = range(this_round.num_judged)
    new = tuple(PositionCount(1, int(position < this_round.num_accepted)) for position in judged)
    return {**so_far, source: _plus(so_far.get(source, ()), new)}


def _plus(one: Counts, other: Counts) -> Counts:
    return tuple(mine.plus(theirs) for mine, theirs in zip_longest(one, other, fillvalue=PositionCount()))
