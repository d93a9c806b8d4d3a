"""Sampled assisted text has the target's own distribution: chi-square on three tokens' joint, through rounds().

Scripted models over five tokens, whose next-token probabilities depend on the last two. Seeds, level and
bins are fixed, so a run always gives the same answer. The first three tokens meet bonus and residual draws;
the fourth to sixth come after roll-backs and changes of the draft length. Faulty rules must fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from threading import Event
from typing import Any

import pytest
import torch
from scipy.stats import chi2

from app.engine import rules, verification
from app.engine.cached_model import ModelPair
from app.engine.decoding import rounds
from app.engine.sampling import Sampler
from app.records import Round, SamplingSettings
from tests.helpers.exact import joint
from tests.helpers.replies import request
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, scripted_pair

VOCABULARY = 5
PROMPT = "1 2 0 1 2 3 1 2"  # "1 2" came before, so a lookup drafts from the first round on
NUM_SEEDS = 1200
ALPHA = 1e-4

TARGET = last_two_tokens(seed=30, vocabulary=VOCABULARY)
ASSISTANT = mixed(TARGET, last_two_tokens(seed=2, vocabulary=VOCABULARY), weight=0.7)

DRAFTERS = {
    "assistant, speculative": {"drafter": "assistant", "rule": "speculative"},
    "assistant, sample-match": {"drafter": "assistant", "rule": "sample-match"},
    "lookup": {"drafter": "lookup"},
    "lookup, speculative": {"drafter": "lookup", "rule": "speculative"},
}
SCHEDULES = {
    "constant 1": {"draft_length": 1},
    "constant 2": {"draft_length": 2},
    "constant 4": {"draft_length": 4},
    "heuristic": {"draft_length": 1, "schedule": "heuristic"},
}


def scripted() -> ModelPair:
    return scripted_pair(ScriptedModel(TARGET, VOCABULARY), ScriptedModel(ASSISTANT, VOCABULARY))


def until(length: int, stream: Iterator[Round]) -> list[Round]:
    """The rounds up to the one that brings the reply to `length` tokens."""
    seen: list[Round] = []
    while sum(len(each.emitted) for each in seen) < length:
        seen.append(next(stream))
    return seen


def sample(length: int, **settings: Any) -> tuple[Counter, int, int]:
    """The first `length` tokens for every seed, counted; and how many candidates were judged and accepted."""
    pair, found, judged, accepted = scripted(), Counter(), 0, 0
    for seed in range(NUM_SEEDS):
        seen = until(length, rounds(pair, request(PROMPT, 12, seed=seed, **settings), Event()))
        found[tuple(token.id for each in seen for token in each.emitted)[:length]] += 1
        judged += sum(each.num_judged for each in seen)
        accepted += sum(each.num_accepted for each in seen)
    return found, judged, accepted


def expected(length: int, **sampling: Any) -> dict[tuple[int, ...], float]:
    """The target's own joint distribution of its first `length` tokens."""
    prompt = [int(word) for word in PROMPT.split()]
    sampler = Sampler(SamplingSettings(**sampling))
    return joint(lambda tokens: sampler.probabilities(TARGET([*prompt, *tokens])[None])[0], length)


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


@pytest.mark.parametrize("temperature", [0.3, 1.0])
@pytest.mark.parametrize(("drafter", "schedule"), list(product(list(DRAFTERS)[:3], SCHEDULES)))
def test_three_tokens(drafter: str, schedule: str, temperature: float) -> None:
    found, judged, accepted = sample(3, temperature=temperature, **DRAFTERS[drafter], **SCHEDULES[schedule])
    assert NUM_SEEDS / 10 < accepted < judged, "the drafts were neither always right nor always wrong"
    assert p_value(found, expected(3, temperature=temperature)) > ALPHA


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_three_tokens_of_plain_sampling(temperature: float) -> None:
    found, judged, _ = sample(3, temperature=temperature, drafter="none")
    assert judged == 0
    assert p_value(found, expected(3, temperature=temperature)) > ALPHA


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_fourth_to_sixth_token(drafter: str) -> None:
    found, _, _ = sample(6, temperature=1.0, **DRAFTERS[drafter], **SCHEDULES["heuristic"])
    assert p_value(last_three(found), last_three(expected(6, temperature=1.0))) > ALPHA


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_three_tokens_with_top_k_and_top_p(drafter: str) -> None:
    filters = {"temperature": 1.0, "top_k": 4, "top_p": 0.85}
    found, _, _ = sample(3, draft_length=2, **DRAFTERS[drafter], **filters)
    assert len(expected(3, **filters)) < VOCABULARY**3 / 2, "the filters leave something out"
    assert p_value(found, expected(3, **filters)) > ALPHA


# What follows shows that the test can fail.


def p_value_now() -> float:
    found, _, _ = sample(3, temperature=1.0, draft_length=2, rule="speculative")
    return p_value(found, expected(3, temperature=1.0))


def test_notices_a_residual_that_is_not_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "residual", lambda p, q: p)
    assert p_value_now() < ALPHA


def test_notices_an_acceptance_probability_upside_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "acceptance_probability", lambda p, q, x: min(1.0, float(q[x] / p[x])))
    assert p_value_now() < ALPHA


def test_notices_a_bonus_token_from_the_wrong_row(monkeypatch: pytest.MonkeyPatch) -> None:
    right = verification.speculative_sampling
    wrong = lambda ids, q, p, noise: right(ids, q, torch.cat([p[:-1], p[:1]]), noise)  # noqa: E731
    monkeypatch.setattr(rules, "speculative_sampling", wrong)
    assert p_value_now() < ALPHA


def test_notices_first_choices_judged_as_if_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """D7: an assistant that takes its first choices under the rule for drawn drafts."""
    monkeypatch.setattr("app.engine.drafters.assistant.draw", lambda row, uniform: int(row.argmax()))
    assert p_value_now() < ALPHA


def test_notices_draft_and_verdict_that_share_a_random_number(monkeypatch: pytest.MonkeyPatch) -> None:
    original = verification.speculative_sampling

    def shared(ids: Any, q: Any, p: Any, noise: Any) -> Any:
        return original(ids, q, p, lambda purpose, i: noise("draft" if purpose == "accept" else purpose, i))

    monkeypatch.setattr(rules, "speculative_sampling", shared)
    assert p_value_now() < ALPHA
