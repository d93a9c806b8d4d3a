"""Every verification rule leaves the target's distribution unchanged: enumerated exactly, to 1e-12.

The rule's own function is integrated over its uniform numbers and over the draft, the emitted tokens are
completed by plain sampling to one length, and their joint distribution is compared with the target's own.
Rules with a deliberate fault must fail the same comparison.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable

import pytest
import torch

from app.engine import verification
from app.engine.sampling import Noise, Purpose
from app.engine.verification import Outcome, greedy_match, sample_and_match, speculative_sampling
from tests.helpers.exact import Next, cumulative, integrate, joint, largest_difference

Rule = Callable[[tuple[int, ...], torch.Tensor | None, torch.Tensor, Noise], Outcome]

PAIRS = {
    "different": ([0.5, 0.3, 0.2], [0.2, 0.2, 0.6]),
    "equal": ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2]),
    "equal but for rounding": ([0.1, 0.2, 0.7], [0.1, math.nextafter(0.2, 0.0), 0.7]),
    "disjoint": ([0.4, 0.6, 0.0, 0.0], [0.0, 0.0, 0.3, 0.7]),
    "certain target": ([0.0, 1.0, 0.0], [0.5, 0.2, 0.3]),
    "certain assistant": ([0.2, 0.3, 0.5], [1.0, 0.0, 0.0]),
    "both certain, of different tokens": ([0.0, 0.0, 1.0], [0.0, 1.0, 0.0]),
    "zeros in the target": ([0.7, 0.0, 0.3, 0.0], [0.1, 0.4, 0.3, 0.2]),
    "zeros in the assistant": ([0.1, 0.4, 0.3, 0.2], [0.6, 0.0, 0.4, 0.0]),
    "overconfident assistant": ([0.25, 0.25, 0.25, 0.25], [0.97, 0.01, 0.01, 0.01]),
}


def rolled(values: list[float]) -> Next:
    """A distribution that moves on with every token, so that no two rows of a round are alike."""
    base = torch.tensor(values, dtype=torch.float64)
    return lambda tokens: base.roll(sum(tokens) + len(tokens))


def emitted_distribution(rule: Rule, target: Next, assistant: Next | None, draft: dict) -> dict:
    """The joint of k + 1 tokens: a round over each draft (ids -> its probability), then plain sampling."""
    found: dict[tuple[int, ...], float] = defaultdict(float)
    for ids, drafted in draft.items():
        p = torch.stack([target(ids[:i]) for i in range(len(ids) + 1)])  # [k + 1, vocab]
        q = torch.stack([assistant(ids[:i]) for i in range(len(ids))]) if assistant and ids else None
        outcomes = integrate(lambda noise: rule(ids, q, p, noise), edges(ids, q, p))  # noqa: B023
        for outcome, share in outcomes.items():
            tokens = tuple(outcome.emitted(ids))
            for rest, weight in joint(target, len(ids) + 1 - len(tokens), tokens).items():
                found[*tokens, *rest] += drafted * share * weight
    return found


def edges(ids: tuple[int, ...], q: torch.Tensor | None, p: torch.Tensor) -> Callable:
    """Where a rule may change its mind: also where a faulty one would."""

    def breakpoints(purpose: Purpose, position: int) -> list[float]:
        if position == len(ids):
            return [edge for row in p for edge in cumulative(row)]
        ours = (
            torch.zeros_like(p[0]).index_fill_(0, torch.tensor(ids[position]), 1.0)
            if q is None
            else q[position]
        )
        if purpose == "accept":
            share = float(p[position][ids[position]]), float(ours[ids[position]])
            return [a / b for a, b in (share, share[::-1]) if b > 0]
        left = (p[position] - ours).clamp_min(0)
        return [*cumulative(p[position]), *(cumulative(left) if left.any() else [])]

    return breakpoints


def difference(rule: Rule, p: list[float], q: list[float], num_candidates: int) -> float:
    """How far the emitted tokens are from the target's own when an assistant draws the draft."""
    target, assistant = rolled(p), rolled(q)
    found = emitted_distribution(rule, target, assistant, joint(assistant, num_candidates))
    return largest_difference(found, joint(target, num_candidates + 1))


def fixed_drafts(vocabulary: int, num_candidates: int) -> list[tuple[int, ...]]:
    """Every draft that somebody who draws nothing could write."""
    return list(itertools.product(range(vocabulary), repeat=num_candidates))


def without_assistant(rule: Callable) -> Rule:
    return lambda ids, q, p, noise: rule(ids, p, noise)


@pytest.mark.parametrize("num_candidates", [0, 1, 2])
@pytest.mark.parametrize("name", PAIRS)
def test_speculative_sampling_of_a_drawn_draft(name: str, num_candidates: int) -> None:
    assert difference(speculative_sampling, *PAIRS[name], num_candidates) < 1e-12


@pytest.mark.parametrize("num_candidates", [1, 2])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("rule", [speculative_sampling, without_assistant(sample_and_match)])
def test_every_fixed_draft(rule: Rule, name: str, num_candidates: int) -> None:
    """A lookup, or an assistant that takes its first choices: each single draft must leave the text alone (D7)."""
    target = rolled(PAIRS[name][0])
    for ids in fixed_drafts(len(PAIRS[name][0]), num_candidates):
        found = emitted_distribution(rule, target, None, {ids: 1.0})
        assert largest_difference(found, joint(target, num_candidates + 1)) < 1e-12


@pytest.mark.parametrize("name", PAIRS)
def test_greedy_match_emits_the_first_choices_whatever_was_drafted(name: str) -> None:
    base = torch.tensor(PAIRS[name][0], dtype=torch.float64)

    def first_choice(tokens: tuple[int, ...]) -> torch.Tensor:
        return torch.nn.functional.one_hot(base.roll(sum(tokens)).argmax(), len(base)).double()

    rule = without_assistant(lambda ids, p, noise: greedy_match(ids, p))
    for ids in fixed_drafts(len(base), 2):
        found = emitted_distribution(rule, first_choice, None, {ids: 1.0})
        assert found == joint(first_choice, 3)


def test_equal_distributions_accept_everything() -> None:
    p = q = torch.tensor([[0.5, 0.3, 0.2]] * 3, dtype=torch.float64)
    outcomes = integrate(lambda noise: speculative_sampling((1, 2), q[:2], p, noise), edges((1, 2), q[:2], p))
    assert {outcome.num_accepted for outcome in outcomes} == {2}


def test_disjoint_distributions_accept_nothing() -> None:
    p, q = torch.tensor([[0.5, 0.5, 0.0]] * 2), torch.tensor([[0.0, 0.0, 1.0]])
    outcomes = integrate(lambda noise: speculative_sampling((2,), q, p, noise), edges((2,), q, p))
    assert {outcome.num_accepted for outcome in outcomes} == {0}


# What follows shows that the comparison can fail.


def test_notices_a_residual_that_is_not_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "residual", lambda p, q: p)
    assert difference(speculative_sampling, *PAIRS["different"], 1) > 0.01


def test_notices_an_acceptance_probability_upside_down(monkeypatch: pytest.MonkeyPatch) -> None:
    upside_down = lambda p, q, x: min(1.0, float(q[x]) / max(float(p[x]), 1e-300))  # noqa: E731
    monkeypatch.setattr(verification, "acceptance_probability", upside_down)
    assert difference(speculative_sampling, *PAIRS["different"], 1) > 0.01


def test_notices_a_bonus_token_from_the_wrong_row() -> None:
    def faulty(ids: tuple[int, ...], q: torch.Tensor | None, p: torch.Tensor, noise: Noise) -> Outcome:
        return speculative_sampling(ids, q, torch.cat([p[:-1], p[-2:-1]]), noise)

    assert difference(faulty, *PAIRS["different"], 1) > 0.01


def test_notices_a_certain_draft_judged_as_a_drawn_one() -> None:
    """D7: the first choice of an assistant is not a draw from its distribution."""
    target, assistant = rolled(PAIRS["different"][0]), rolled(PAIRS["different"][1])
    first_choice = int(assistant(()).argmax())
    found = emitted_distribution(speculative_sampling, target, assistant, {(first_choice,): 1.0})
    assert largest_difference(found, joint(target, 2)) > 0.01


def test_notices_a_match_that_also_lets_second_choices_stand() -> None:
    def faulty(ids: tuple[int, ...], q: torch.Tensor | None, p: torch.Tensor, noise: Noise) -> Outcome:
        outcome = sample_and_match(ids, p, noise)
        return Outcome(1, 0) if outcome.num_accepted == 0 and noise("accept", 0) < 0.5 else outcome

    assert difference(faulty, *PAIRS["different"], 1) > 0.01
