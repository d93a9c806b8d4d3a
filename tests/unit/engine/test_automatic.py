"""The automatic draft length in simulated pairs: never much slower than plain, near the best constant length.

Times are in steps of the target. The schedule sees them with noise and outliers; what is added up is without.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from statistics import mean

import pytest

from app.engine import automatic
from app.engine.automatic import LONGEST, Acceptance, Automatic, Costs, interpolated, rising
from app.engine.draft_length import Constant, DraftLength
from app.records import Round, Source
from tests.helpers.sample_rounds import a_round

SLOWEST = 1.03
SEEDS = range(5)


def flat(width: int) -> float:
    """As measured in bf16: 1.12 at width 11."""
    return 1 + 0.012 * (width - 1)


def steep(width: int) -> float:
    """As measured in int4: 3.1 at width 6."""
    return (1, 1.12, 1.35, 1.8, 2.4, 3.1)[width - 1] if width <= 6 else 3.1 + 0.6 * (width - 6)


VERIFY = {"flat": flat, "steep": steep}


@dataclass(frozen=True)
class Drafts:
    """How one source drafts: `acceptance` by token number and place, steps a candidate, how often it finds any."""

    acceptance: Callable[[int, int], float]
    cost: float
    catch_up: float = 0.02  # for each token it lags behind, in draft steps
    found: float = 1.0
    source: Source = "assistant"


def always(rate: float) -> Callable[[int, int], float]:
    return lambda token, place: rate


def write(
    schedule: DraftLength, drafters: list[Drafts], verify: Callable[[int], float], num_tokens: int, seed: int
) -> tuple[list[Round], float]:
    """The rounds of a reply, and its steps per token. The first drafter that finds something drafts."""
    chance = random.Random(seed)
    rounds: list[Round] = []
    written, steps = 0, 0.0
    lag = dict.fromkeys((each.source for each in drafters), 0)
    while written < num_tokens:
        length, drafter = 0, drafters[0]
        for each in drafters:
            if not length and chance.random() < each.found:
                length, drafter = min(schedule.current(each.source), num_tokens - written - 1), each
        accepted = 0
        while accepted < length and chance.random() < drafter.acceptance(written + accepted, accepted):
            accepted += 1
        late = drafter.catch_up * lag[drafter.source] if length else 0.0
        draft, passed = drafter.cost * (length + late), verify(length + 1)
        warm_up = 1 if rounds else 3
        measured = a_round(
            length, accepted, drafter.source, draft * noise(chance), warm_up * passed * noise(chance)
        )
        rounds.append(replace(measured, index=len(rounds), position=written))
        schedule.observe(rounds[-1])
        for source in lag:
            lag[source] = 0 if length and source == drafter.source else lag[source] + accepted + 1
        written += accepted + 1
        steps += draft + passed
    return rounds, steps / num_tokens


def noise(chance: random.Random) -> float:
    return chance.lognormvariate(0, 0.15) * (5 if chance.random() < 0.01 else 1)


def steps_per_token(
    make: Callable[[], DraftLength], drafters: list[Drafts], verify: Callable[[int], float], num_tokens: int
) -> list[float]:
    """One figure for each seed, from a cold start."""
    return [write(make(), drafters, verify, num_tokens, seed)[1] for seed in SEEDS]


@pytest.mark.parametrize("verify", VERIFY)
@pytest.mark.parametrize("catch_up", [0.0, 0.1])
@pytest.mark.parametrize(
    ("rate", "cost"), [(0, 0.001), (0, 0.1), (0, 0.5), (0.1, 0.1), (0.2, 0.3), (0.3, 0.5)]
)
def test_a_bad_pair_is_at_most_three_percent_slower_than_plain(
    rate: float, cost: float, catch_up: float, verify: str
) -> None:
    drafters = [Drafts(always(rate), cost, catch_up)]
    assert max(steps_per_token(Automatic, drafters, VERIFY[verify], 512)) <= SLOWEST


def against_best_constant(rate: float, cost: float, verify: Callable[[int], float]) -> float:
    """Its steps per token over those of the best length in hindsight, which is 0 where drafting does not pay."""
    drafters = [Drafts(always(rate), cost)]
    constants = [
        mean(steps_per_token(lambda length=length: Constant(length), drafters, verify, 1024))
        for length in (0, 1, 2, 3, 5, 8, 12)
    ]
    return mean(steps_per_token(Automatic, drafters, verify, 1024)) / min(constants)


@pytest.mark.parametrize("verify", VERIFY)
@pytest.mark.parametrize("cost", [0.05, 0.2, 0.5])
def test_it_comes_near_the_best_constant_length(cost: float, verify: str) -> None:
    ratios = [against_best_constant(rate, cost, VERIFY[verify]) for rate in (0.3, 0.7, 0.95)]
    assert mean(ratios) <= 1.05 and max(ratios) <= 1.08, ratios


def turning(token: int, place: int) -> float:
    """Good for 200 tokens, bad for 200, good again."""
    return 0.05 if 200 <= token < 400 else 0.9


def tokens_until_it_drafts(rounds: list[Round], start: int) -> float:
    """From token `start` to three drafted rounds in a row."""
    for window in zip(rounds, rounds[1:], rounds[2:], strict=False):
        if window[0].position >= start and all(each.candidates for each in window):
            return window[0].position - start
    return inf


@pytest.mark.parametrize(
    ("cost", "catch_up", "verify"),
    [
        (0.05, 0.02, "flat"),
        (0.1, 0.1, "flat"),
        (0.3, 0.05, "flat"),
        (0.05, 0.02, "steep"),
        (0.1, 0.1, "steep"),
    ],
)
def test_it_falls_back_where_the_text_turns_and_recovers_behind(
    cost: float, catch_up: float, verify: str
) -> None:
    for seed in SEEDS:
        rounds, steps = write(Automatic(), [Drafts(turning, cost, catch_up)], VERIFY[verify], 600, seed)
        bad = [each for each in rounds if 220 <= each.position < 400]
        wasted = sum(len(each.candidates) * cost for each in bad)
        assert wasted < 0.1 * len(bad), "draft steps where next to nothing stands"
        assert tokens_until_it_drafts(rounds, 400) <= 60
        assert steps <= SLOWEST


def test_without_fading_it_would_not_recover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic, "FADING", 1.0)
    waits = [
        tokens_until_it_drafts(write(Automatic(), [Drafts(turning, 0.3)], flat, 600, seed)[0], 400)
        for seed in SEEDS
    ]
    assert max(waits) > 60


def test_without_an_account_it_would_lose_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Automatic, "_stake", lambda self, source: inf)
    assert max(steps_per_token(Automatic, [Drafts(always(0.0), 0.5)], flat, 512)) > SLOWEST


def test_without_costs_it_would_draft_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Costs, "seconds", lambda self, source, length: self.plain)
    assert against_best_constant(0.7, 0.2, steep) > 1.08


def test_acceptance_that_ends_behind_the_second_place_is_seen() -> None:
    drafters = [Drafts(lambda token, place: 0.95 if place < 2 else 0.05, 0.2)]
    rounds, _ = write(Automatic(), drafters, flat, 512, seed=1)
    late = [len(each.candidates) for each in rounds[len(rounds) // 2 :]]
    assert 1.8 <= mean(late) <= 2.4


def hybrid(lookup: float, assistant: float, cost: float = 0.2) -> list[Drafts]:
    return [
        Drafts(always(lookup), 0.001, 0.0, found=0.5, source="lookup"),
        Drafts(always(assistant), cost),
    ]


def share_of_lookup(rounds: list[Round]) -> float:
    """Of all candidates in the second half."""
    late = rounds[len(rounds) // 2 :]
    copied = sum(len(each.candidates) for each in late if each.source == "lookup")
    return copied / sum(len(each.candidates) for each in late)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sources_of_a_hybrid_are_kept_apart(seed: int) -> None:
    rounds, steps = write(Automatic(), hybrid(lookup=0.97, assistant=0.05), flat, 1024, seed)
    assert share_of_lookup(rounds) > 0.9
    assert steps < 0.4
    rounds, steps = write(Automatic(), hybrid(lookup=0.05, assistant=0.9, cost=0.1), flat, 1024, seed)
    assert share_of_lookup(rounds) < 0.1
    assert steps < 0.45
    assert write(Automatic(), hybrid(lookup=0.05, assistant=0.0), steep, 512, seed)[1] <= SLOWEST


def test_a_copy_must_beat_what_the_assistant_would_draft() -> None:
    schedule = Automatic()
    for index in range(60):
        schedule.observe(replace(a_round(0, 0, verify_seconds=1.0), index=1))
        schedule.observe(replace(a_round(4, 4, "assistant", 0.2, 1.0), index=1))
        schedule.observe(replace(a_round(1, index % 2, "lookup", 0.0, 1.0), index=1))
    assert schedule.current("assistant") >= 4
    assert schedule.current("lookup") == 0


@pytest.mark.parametrize(("source", "most"), [("lookup", LONGEST), ("assistant", 16), ("early-exit", 16)])
def test_lengths_grow_by_doubling_up_to_the_most_of_the_source(source: Source, most: int) -> None:
    rounds, _ = write(Automatic(), [Drafts(always(1.0), 0.001, 0.0, source=source)], flat, 2048, seed=3)
    lengths = [len(each.candidates) for each in rounds[:-1]]
    longest = 1
    for before, length in pairwise(lengths):
        longest = max(longest, before)
        assert length <= max(1, 2 * longest)
    assert max(lengths) == most


def test_a_round_without_candidates_says_nothing_about_acceptance() -> None:
    schedule = Automatic()
    for index in range(30):
        schedule.observe(replace(a_round(0, 0), index=index))
    assert schedule.current("assistant") > 0, "it has not even been tried"
    lookup = [Drafts(always(0.9), 0.001, 0.0, found=0.05, source="lookup")]
    rounds, _ = write(Automatic(), lookup, flat, 2048, seed=0)
    assert max(len(each.candidates) for each in rounds) >= 4, "it seldom finds anything, but then it is good"


def test_what_was_learnt_serves_the_next_reply() -> None:
    good = Automatic()
    write(good, [Drafts(always(0.95), 0.05)], flat, 512, seed=0)
    assert good.current("assistant") >= 8
    _, steps = write(good, [Drafts(always(0.0), 0.05)], flat, 512, seed=1)
    assert steps <= SLOWEST, "what one reply won is not lost in the next"


def test_expected_tokens_are_equation_1_of_leviathan() -> None:
    acceptance = Acceptance()
    for number in range(4000):
        acceptance.observe(a_round(3, (3, 0, 3, 1)[number % 4]))
    one = next(acceptance.expected_tokens()) - 1
    assert one == pytest.approx(0.75, abs=0.01)
    even = Acceptance()
    expected = even.expected_tokens()
    for length in range(1, 6):
        rate = (automatic.HOPE,) * length
        assert next(expected) == pytest.approx((1 - rate[0] ** (length + 1)) / (1 - rate[0]))


def test_costs_are_medians_that_never_fall_with_the_width() -> None:
    assert rising({1: [1.0, 9.0, 1.0], 2: [1.2, 1.2]}) == [(1, 1.0), (2, 1.2)]
    assert rising({1: [9.0], 2: [1.0, 1.1], 4: [2.0]}) == [(1, 1.1), (2, 1.1), (4, 2.0)]


def test_unseen_widths_are_interpolated_and_steeply_extrapolated() -> None:
    assert interpolated([(1, 1.0)], 3) == pytest.approx([1.0, 1.2, 1.4])
    assert interpolated([(1, 1.0), (3, 2.0)], 5) == pytest.approx([1.0, 1.5, 2.0, 2.5, 3.0])
    assert interpolated([(1, 1.0), (2, 3.0), (3, 3.0)], 4) == pytest.approx([1.0, 3.0, 3.0, 4.0])


def test_reading_what_others_wrote_is_no_draft_cost() -> None:
    costs = Costs()
    costs.observe(a_round(0, 0), lag=0)
    for _ in range(5):
        costs.observe(a_round(2, 1, draft_seconds=0.02), lag=0)
    costs.observe(a_round(2, 1, draft_seconds=1.02), lag=20)
    costs.observe(a_round(2, 1, draft_seconds=1.02), lag=20)
    assert costs.draft("assistant") == pytest.approx(0.01)
    assert costs.catch_up("assistant") == pytest.approx(0.05)


def test_it_stays_plain_until_it_knows_what_plain_costs() -> None:
    schedule = Automatic()
    assert schedule.current("assistant") == 0
    for index in (0, 1):
        schedule.observe(replace(a_round(2, 2), index=index))
        assert schedule.current("assistant") == 0
    schedule.observe(replace(a_round(0, 0), index=2))
    assert schedule.current("assistant") > 0
