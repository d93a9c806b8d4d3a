"""The automatic draft length: the one that promises the most tokens per second, by what the rounds cost and gave.

With a_i the chance that candidate i stands once those before it do, a draft of k candidates yields

    E(k) = 1 + a_1 + a_1 a_2 + ... + a_1 ... a_k

tokens per round; equal chances a make it (1 - a^(k+1)) / (1 - a), which is equation 1 of Leviathan et al., "Fast
Inference from Transformers via Speculative Decoding", arXiv 2211.17192. A round takes k draft steps, one forward pass
of the target over k + 1 tokens, and bookkeeping. The quotient is the speed, and k = 0 is plain generation. Nothing
here reads a clock: everything is learnt from the rounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise, repeat
from statistics import median_low

from app.records import Round, Source

LONGEST = 32
"""No schedule drafts more: the wider forward pass would cost more than an unbroken run could save."""

MOST: dict[Source, int] = {"lookup": LONGEST, "assistant": 16, "early-exit": 16}
"""The longest draft of each source."""

WINDOW, PLAIN_WINDOW, ENOUGH = 9, 31, 5
"""How many of the latest times a median is taken of; of plain rounds, which all others are measured by, more.

So many plain rounds are ENOUGH to stand for themselves."""

FEW = 3
"""Fewer times than this are not believed alone."""

LATE = 8
"""A drafter that must first read more tokens than this for each it drafts tells what reading them costs."""

FADING, DOUBT = 0.93, 0.7
"""What a round leaves of the weight of all that was counted before, and what a refusal leaves behind its place."""

HOPE, WEIGHT = 0.8, 1.0
"""The chance of a first candidate while none was judged, and for how many judged ones this hope counts."""

ALLOWANCE, SHARE = 5.0, 0.01
"""What drafting may lose against plain generation: so many steps of the target, and this share of all steps.

Over 512 tokens they add up to 2 %. The rest of the promised 3 % is for what the medians do not know."""

TRIAL, RESERVE = 1.2, 32.0
"""Steps of the target that every reply may lose, and the most of what drafting won in it that it may lose again."""

ERROR = 0.05
"""Steps of the target that a drafted round is charged for the error of what plain generation is thought to cost."""

PATIENCE = 150
"""While plain generation lasts, trials may lose the whole account over so many tokens, and no quicker."""

FORGOTTEN = 50
"""After so many plain rounds in a row what is known is old, and a candidate is tried if the account can pay for it."""

RECHECK = 100
"""Plain rounds that measure again what plain generation costs may cost one part in so many of the speed."""


class Automatic:
    """Chooses the length of the best E(k) / seconds(k) for each source, 0 where plain generation is quicker.

    What was counted fades, and hope takes its place: so a source that was given up is tried again, the sooner
    the less a trial costs. An account of what drafting has won and lost, in steps of the target, bounds what
    that can lose: a draft is at most as long as the account can pay for, should all of it be refused. What a
    hybrid drafter copies must also beat what its model would draft instead.
    """

    def __init__(self) -> None:
        self._costs = Costs()
        self._acceptance: dict[Source, Acceptance] = {}
        self._lag: dict[Source, int] = {}  # tokens emitted since the source last drafted
        self._account = ALLOWANCE
        self._plain_run = 0  # plain rounds since the last draft
        self._since_plain = 0  # drafts since the last plain round
        self._chosen: dict[Source, int] = {}  # for the next round

    def current(self, source: Source) -> int:
        if source not in self._chosen:
            self._chosen[source] = self._choose(source)
        return self._chosen[source]

    def observe(self, this_round: Round) -> None:
        source = this_round.source
        self._chosen.clear()
        if this_round.index == 0:
            self._begin()
        else:
            self._costs.observe(this_round, self._lag.get(source, 0) if source else 0)
        for each in self._acceptance.values():
            each.fade()
        if source is None:
            self._plain_run += 1
            self._since_plain = 0
        else:
            self._plain_run = 0
            self._since_plain += 1
            self._acceptance.setdefault(source, Acceptance()).observe(this_round)
        if self._costs.num_plain:
            self._book(this_round)

    def _begin(self) -> None:
        """A reply begins: every model has read the prompt, and the times of the first round are those of a start."""
        self._lag.clear()
        self._account = min(ALLOWANCE, max(TRIAL, self._account))

    def _book(self, this_round: Round) -> None:
        """Enters what a round won or lost. A time more than twice the usual is chance: plain ones have it too."""
        source, emitted = this_round.source, len(this_round.emitted)
        gain = SHARE * emitted
        if source is not None:
            usual = 1 + self._loss(source, len(this_round.candidates))
            gain += emitted - ERROR - min(this_round.seconds / self._costs.plain, 2 * usual)
        self._account = min(RESERVE, self._account + gain)
        for each in self._acceptance:
            self._lag[each] = 0 if each == source else self._lag.get(each, 0) + emitted

    def _choose(self, source: Source) -> int:
        if not self._costs.num_plain:
            return 0
        length, speed = self._best(source)
        others = max((self._best(each)[1] for each in self._acceptance if each != source), default=0.0)
        slowdown = 1 / (self._costs.plain * max(speed, others))  # of a plain round
        if self._since_plain >= min(RECHECK * (1 - slowdown), 4**self._costs.num_plain):
            return 0
        if self._plain_run >= FORGOTTEN and self._loss(source, 1) <= self._stake(source):
            return max(1, length)
        return 0 if source == "lookup" and speed < others else length

    def _best(self, source: Source) -> tuple[int, float]:
        """The best length and its tokens per second. It is at most twice the longest that was tried."""
        acceptance = self._acceptance.get(source, Acceptance())
        best, speed, stake = 0, 1 / self._costs.plain, self._stake(source)
        most = min(MOST[source], max(1, 2 * acceptance.longest))
        late, plain = self._late(source), self._costs.plain
        for length, tokens in zip(range(1, most + 1), acceptance.expected_tokens(), strict=False):
            seconds = self._costs.seconds(source, length)
            if (seconds + late) / plain - 1 > stake:
                break
            if tokens / seconds > speed:
                best, speed = length, tokens / seconds
        return best, speed

    def _loss(self, source: Source, length: int) -> float:
        """What a draft of `length` loses if none of it stands, in steps of the target."""
        return (self._costs.seconds(source, length) + self._late(source)) / self._costs.plain - 1

    def _late(self, source: Source) -> float:
        """Seconds to read what others wrote since the source last drafted."""
        return self._lag.get(source, 0) * self._costs.catch_up(source)

    def _stake(self, source: Source) -> float:
        """The most that the next draft may lose: half of the account, and less while plain rounds follow each other."""
        if self._plain_run <= 1 or source not in self._acceptance:
            return self._account / 2
        return min(self._account / 2, self._plain_run * (SHARE + self._account / PATIENCE))


class Acceptance:
    """How often the candidate at each place of one source's drafts stood, where it was judged."""

    def __init__(self) -> None:
        self._judged: list[float] = []
        self._accepted: list[float] = []

    @property
    def longest(self) -> int:
        """The most candidates drafted so far."""
        return len(self._judged)

    def fade(self) -> None:
        self._fade(FADING, 0)

    def observe(self, this_round: Round) -> None:
        """Counts the judged candidates. Those behind a refused one were not, and are no longer sure to be as good."""
        missing = len(this_round.candidates) - self.longest
        self._judged += [0.0] * missing
        self._accepted += [0.0] * missing
        for place in range(this_round.num_judged):
            self._judged[place] += 1
            self._accepted[place] += place < this_round.num_accepted
        if this_round.num_accepted < this_round.num_judged:
            self._fade(DOUBT, this_round.num_judged)

    def _fade(self, share: float, start: int) -> None:
        for counts in (self._judged, self._accepted):
            counts[start:] = [share * each for each in counts[start:]]

    def expected_tokens(self) -> Iterator[float]:
        """E(1), E(2), ... without end. A place expects what the one before it does, until it was judged itself."""
        rate, unbroken, tokens = HOPE, 1.0, 1.0
        counts = zip(self._judged, self._accepted, strict=True)
        for judged, accepted in chain(counts, repeat((0.0, 0.0))):
            rate = (accepted + WEIGHT * rate) / (judged + WEIGHT)
            unbroken *= rate
            tokens += unbroken
            yield tokens


class Costs:
    """Seconds of draft steps, of forward passes by width, and of the rest: medians, so that outliers do not matter."""

    def __init__(self) -> None:
        self._verify: dict[int, deque[float]] = {}
        self._draft: dict[Source, deque[float]] = {}
        self._catch_up: dict[Source, deque[float]] = {}
        self._rest: deque[float] = deque([0.0], WINDOW)
        self._table: list[float] = []  # verify seconds of width 1, 2, ...
        self._steps: dict[Source, float] = {}
        self.rest = 0.0
        self.plain = 0.0  # a round without a draft; known from the first one on

    def observe(self, this_round: Round, lag: int) -> None:
        """Takes a round's times; its drafter first had to read `lag` tokens that others wrote."""
        length, source = len(this_round.candidates), this_round.source
        window = WINDOW if length else PLAIN_WINDOW
        self._verify.setdefault(length + 1, deque(maxlen=window)).append(this_round.verify_seconds)
        self._rest.append(this_round.seconds - this_round.draft_seconds - this_round.verify_seconds)
        if not self.num_plain:
            return  # nothing to measure a draft by
        self._summarise()
        if source is None:
            return
        if lag > LATE * length and source in self._draft:
            late = max(0.0, this_round.draft_seconds - length * self.draft(source)) / lag
            self._catch_up.setdefault(source, deque(maxlen=WINDOW)).append(late)
        else:
            drafts = self._draft.setdefault(source, deque(maxlen=WINDOW))
            drafts.append(this_round.draft_seconds / length)
            self._steps[source] = median_low(with_guess(drafts, self.verify(1) / 2))

    @property
    def num_plain(self) -> int:
        """How many plain rounds it knows."""
        return len(self._verify.get(1, ()))

    def seconds(self, source: Source, length: int) -> float:
        """A round with a draft of `length`."""
        return length * self.draft(source) + self.verify(length + 1) + self.rest

    def draft(self, source: Source) -> float:
        """One draft step; half a step of the target before any was taken."""
        return self._steps.get(source, self.verify(1) / 2)

    def catch_up(self, source: Source) -> float:
        """What the drafter takes for each token it lags behind; a fiftieth of a step before it ever did."""
        return median_low(self._catch_up[source]) if source in self._catch_up else self.draft(source) / 50

    def verify(self, width: int) -> float:
        """A forward pass over `width` tokens."""
        return self._table[width - 1]

    def _summarise(self) -> None:
        alone = self._verify[1]
        self._table = self._tabulate()
        self.rest = median_low(self._rest)
        self.plain = self.rest + (median_low(alone) if len(alone) >= ENOUGH else self.verify(1))

    def _tabulate(self) -> list[float]:
        most = 1 + max(MOST.values())
        known = {width: times for width, times in self._verify.items() if width == 1 or len(times) >= FEW}
        guesses = interpolated(rising(known), most)
        if len(known) == len(self._verify):
            return guesses
        expected = {width: with_guess(times, guesses[width - 1]) for width, times in self._verify.items()}
        return interpolated(rising(expected), most)


def with_guess(times: Sequence[float], guess: float) -> Sequence[float]:
    """A guess beside fewer than FEW times: one that is off by chance might else never be measured again."""
    return [*times, guess] if len(times) < FEW else times


def rising(times: Mapping[int, Sequence[float]]) -> list[tuple[int, float]]:
    """(width, seconds) of the widths in `times`, where a wider pass never costs less.

    Isotonic regression of the median: neighbours whose medians fall share the median of all their times (pool
    adjacent violators). So a flat cost is measured by all widths, and one bad time does not stand alone.
    """
    pools: list[tuple[list[int], list[float]]] = []
    for width in sorted(times):
        widths, seconds = [width], list(times[width])
        while pools and median_low(pools[-1][1]) > median_low(seconds):
            before = pools.pop()
            widths, seconds = before[0] + widths, before[1] + seconds
        pools.append((widths, seconds))
    return [(width, median_low(seconds)) for widths, seconds in pools for width in widths]


def interpolated(points: Sequence[tuple[int, float]], most: int) -> list[float]:
    """Seconds of width 1 to `most`: straight lines between the points, whose first is at width 1.

    Behind the last one the cost rises by the steeper of the last line and the one through the first and the last
    point; by a fifth of the first for each token where there is only one.
    """
    (first, base), (last, top) = points[0], points[-1]
    slopes = [(right[1] - left[1]) / (right[0] - left[0]) for left, right in pairwise(points)]
    slope = max(slopes[-1], (top - base) / (last - first)) if slopes else base / 5
    table = [
        left[1] + slope_here * step
        for (left, right), slope_here in zip(pairwise(points), slopes, strict=True)
        for step in range(right[0] - left[0])
    ]
    return table + [top + slope * step for step in range(most - len(table))]
