"""Sampled assisted text has the target's own distribution: chi-square on three tokens' joint, through rounds().

Scripted models over five tokens, whose next-token probabilities depend on the last two. Seeds, level and
bins are fixed, so a run always gives the same answer. The first three tokens meet bonus and residual draws;
the fourth to sixth come after roll-backs and changes of the draft length. Faulty rules must fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from threading import Event
from typing import Any

import pytest
import torch
from scipy.stats import chi2

from app.engine import rules, verification
from app.engine.cached_model import ModelPair
from app.engine.decoding import rounds
from app.engine.drafters import Drafting
from app.engine.drafters.assistant import AssistantDrafter
from app.engine.sampling import Sampler
from app.records import Round
from tests.helpers.clock import Clock
from tests.helpers.exact import joint
from tests.helpers.replies import request
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, scripted_pair

VOCABULARY = 5
PROMPT = "1 2 0 1 2 3 1 2"  # "1 2" came before, so a lookup drafts from the first round on
NUM_SEEDS = 1200
ALPHA = 1e-4

TARGET = last_two_tokens(seed=30, vocabulary=VOCABULARY)
ASSISTANT = mixed(TARGET, last_two_tokens(seed=2, vocabulary=VOCABULARY), weight=0.7)

FACTORS: dict[str, dict[str, dict[str, Any]]] = {
    "drafter": {name: {"drafter": name} for name in ("assistant", "lookup", "hybrid", "early-exit")},
    "rule": {name: {"rule": name} for name in ("speculative", "sample-match")},
    "schedule": {
        "constant 1": {"draft_length": 1},
        "constant 2": {"draft_length": 2},
        "constant 4": {"draft_length": 4},
        "heuristic": {"draft_length": 1, "schedule": "heuristic"},
        "confidence": {"draft_length": 4, "schedule": "confidence", "confidence_threshold": 0.3},
        "automatic": {"schedule": "automatic"},
    },
    "sampling": {
        "0.3": {"temperature": 0.3},
        "1": {"temperature": 1.0},
        "filters": {"temperature": 1.0, "top_k": 4, "top_p": 0.85},
        "min-p and penalties": {
            "temperature": 1.2,
            "min_p": 0.08,
            "repetition_penalty": 1.3,
            "frequency_penalty": 0.4,
            "logit_bias": ((3, 0.5),),
        },
    },
}


def covering(factors: dict[str, dict[str, Any]]) -> list[tuple[str, ...]]:
    """Combinations in which every choice of one factor meets every choice of every other (greedy, few)."""

    def pairs(chosen: tuple[str, ...]) -> set[Any]:
        return set(combinations(enumerate(chosen), 2))

    everything = list(product(*factors.values()))
    left = set().union(*map(pairs, everything))
    found = []
    while left:
        found.append(max(everything, key=lambda chosen: len(pairs(chosen) & left)))
        left -= pairs(found[-1])
    return found


CASES = covering(FACTORS)


def settings_of(case: tuple[str, ...]) -> dict[str, Any]:
    chosen = (choices[name] for choices, name in zip(FACTORS.values(), case, strict=True))
    return {key: value for settings in chosen for key, value in settings.items()}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Time passes with the models' forward passes alone, so that an automatic length is always the same."""
    made = Clock()
    made.install(monkeypatch)
    return made


def scripted(clock: Clock) -> ModelPair:
    target, assistant = ScriptedModel(TARGET, VOCABULARY), ScriptedModel(ASSISTANT, VOCABULARY)
    clock.charge(target, lambda width: 1.0 + 0.05 * width)
    clock.charge(assistant, lambda width: 0.2)
    target.exits_to(assistant)
    return scripted_pair(target, assistant)


def until(length: int, stream: Iterator[Round]) -> list[Round]:
    """The rounds up to the one that brings the reply to `length` tokens."""
    seen: list[Round] = []
    while sum(len(each.emitted) for each in seen) < length:
        seen.append(next(stream))
    return seen


def sample(clock: Clock, length: int, **settings: Any) -> tuple[Counter, int, int]:
    """The first `length` tokens for every seed, counted; and how many candidates were judged and accepted."""
    pair, found, judged, accepted = scripted(clock), Counter(), 0, 0
    for seed in range(NUM_SEEDS):
        asked = request(PROMPT, 12, seed=seed, alternatives=False, **settings)
        seen = until(length, rounds(pair, asked, Event()))
        found[tuple(token.id for each in seen for token in each.emitted)[:length]] += 1
        judged += sum(each.num_judged for each in seen)
        accepted += sum(each.num_accepted for each in seen)
    return found, judged, accepted


def expected(length: int, **settings: Any) -> dict[tuple[int, ...], float]:
    """The target's own joint distribution of its first `length` tokens."""
    prompt = [int(word) for word in PROMPT.split()]
    sampler = Sampler(request(PROMPT, **settings).sampling, len(prompt))

    def following(tokens: tuple[int, ...]) -> torch.Tensor:
        sequence = [*prompt, *tokens]
        return sampler.probabilities(TARGET(sequence)[None], sequence)[0]

    return joint(following, length)


def p_value(found: Counter, shares: dict[tuple[int, ...], float]) -> float:
    """Pearson's chi-square; the rarest outcomes are merged until each bin expects five or more."""
    assert found.keys() <= shares.keys(), "a text that the target cannot write"
    total = found.total()
    bins: list[tuple[float, int]] = []
    pool_share, pool_count = 0.0, 0
    for outcome, share in sorted(shares.items(), key=lambda item: item[1]):
        pool_share, pool_count = pool_share + share, pool_count + found[outcome]
        if pool_share * total >= 5:
            bins.append((pool_share * total, pool_count))
            pool_share, pool_count = 0.0, 0
    statistic = sum((count - mean) ** 2 / mean for mean, count in bins)
    assert pool_count == 0 and pool_share < 1e-9, "the likeliest outcome closes the last bin"
    return float(chi2.sf(statistic, len(bins) - 1))


def last_three(found: dict | Counter) -> Any:
    """Marginal of the last three tokens of longer ones."""
    merged = type(found)()
    for tokens, weight in found.items():
        merged[tokens[-3:]] = merged.get(tokens[-3:], 0) + weight
    return merged


@pytest.mark.parametrize("case", CASES, ids=", ".join)
def test_three_tokens(case: tuple[str, ...], clock: Clock) -> None:
    settings = settings_of(case)
    found, judged, accepted = sample(clock, 3, **settings)
    assert NUM_SEEDS / 10 < accepted < judged, "the drafts were neither always right nor always wrong"
    assert p_value(found, expected(3, **settings)) > ALPHA


def test_every_pair_of_choices_is_covered() -> None:
    for one, other in combinations(range(len(FACTORS)), 2):
        names = list(FACTORS.values())
        met = {(case[one], case[other]) for case in CASES}
        assert met == set(product(names[one], names[other]))
    assert len(CASES) < 32


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_three_tokens_of_plain_sampling(temperature: float, clock: Clock) -> None:
    found, judged, _ = sample(clock, 3, temperature=temperature, drafter="none")
    assert judged == 0
    assert p_value(found, expected(3, temperature=temperature)) > ALPHA


@pytest.mark.parametrize("schedule", ["heuristic", "confidence", "automatic"])
@pytest.mark.parametrize("drafter", ["assistant", "hybrid"])
def test_fourth_to_sixth_token(drafter: str, schedule: str, clock: Clock) -> None:
    settings = {"drafter": drafter, "temperature": 1.0, **FACTORS["schedule"][schedule]}
    found, _, _ = sample(clock, 6, **settings)
    assert p_value(last_three(found), last_three(expected(6, temperature=1.0))) > ALPHA


# What follows shows that the test can fail.


def p_value_now(clock: Clock, **settings: Any) -> float:
    settings = {"temperature": 1.0, "draft_length": 2, "rule": "speculative", **settings}
    found, _, _ = sample(clock, 3, **settings)
    return p_value(found, expected(3, **settings))


def test_notices_a_residual_that_is_not_subtracted(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(verification, "residual", lambda p, q: p)
    assert p_value_now(clock) < ALPHA


def test_notices_an_acceptance_probability_upside_down(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(verification, "acceptance_probability", lambda p, q, x: min(1.0, float(q[x] / p[x])))
    assert p_value_now(clock) < ALPHA


def test_notices_a_bonus_token_from_the_wrong_row(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    right = verification.speculative_sampling
    wrong = lambda ids, q, p, noise: right(ids, q, torch.cat([p[:-1], p[:1]]), noise)  # noqa: E731
    monkeypatch.setattr(rules, "speculative_sampling", wrong)
    assert p_value_now(clock) < ALPHA


def test_notices_first_choices_judged_as_if_drawn(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """D7: an assistant that takes its first choices under the rule for drawn drafts."""
    monkeypatch.setattr("app.engine.drafters.assistant.draw", lambda row, uniform: int(row.argmax()))
    assert p_value_now(clock) < ALPHA


def test_notices_draft_and_verdict_that_share_a_random_number(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    original = verification.speculative_sampling

    def shared(ids: Any, q: Any, p: Any, noise: Any) -> Any:
        return original(ids, q, p, lambda purpose, i: noise("draft" if purpose == "accept" else purpose, i))

    monkeypatch.setattr(rules, "speculative_sampling", shared)
    assert p_value_now(clock) < ALPHA


def test_notices_a_threshold_that_drops_its_candidate(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """To leave out a drawn token because it was unlikely makes the likely ones likelier."""
    original = AssistantDrafter.draft

    def dropping(self: AssistantDrafter, sequence: Any, limit: Any) -> Drafting:
        draft = yield from original(self, sequence, limit)
        if draft.distributions is None or float(draft.distributions[-1, draft.ids[-1]]) >= 0.3:
            return draft
        return replace(draft, ids=draft.ids[:-1], distributions=draft.distributions[:-1])

    monkeypatch.setattr(AssistantDrafter, "draft", dropping)
    assert p_value_now(clock, **FACTORS["schedule"]["confidence"]) < ALPHA


def test_notices_penalties_that_do_not_see_the_candidates(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    settings = {"temperature": 1.0, "draft_length": 4, "frequency_penalty": 1.5}
    right = expected(3, **settings)
    scores = Sampler.scores
    blind = lambda self, logits, sequence=(), candidates=(): scores(self, logits, sequence)  # noqa: E731
    monkeypatch.setattr(Sampler, "scores", blind)
    found, _, _ = sample(clock, 3, **settings)
    assert p_value(found, right) < ALPHA
