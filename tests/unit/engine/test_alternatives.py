"""What else both models would have written: taken from the real decode, one entry for each emitted token."""

from __future__ import annotations

import math

import pytest
import torch

from app.engine.recording import entropy, largest
from app.engine.sampling import Sampler
from app.records import Alternatives, Round, SamplingSettings
from tests.helpers.replies import emitted, reply
from tests.helpers.scripted import Script, ScriptedModel, last_two_tokens, mixed, scripted_pair

VOCABULARY = 9
TARGET = last_two_tokens(seed=4, vocabulary=VOCABULARY)
ASSISTANT = mixed(TARGET, last_two_tokens(seed=5, vocabulary=VOCABULARY), weight=0.4)
PROMPT = "1 2 3 1 2 0 1 2"
DRAFTERS = ["assistant", "lookup", "hybrid", "none"]


def finished_reply(**settings: object) -> list[Round]:
    pair = scripted_pair(ScriptedModel(TARGET, VOCABULARY), ScriptedModel(ASSISTANT, VOCABULARY))
    return reply(pair, PROMPT, 40, **{"draft_length": 3, "seed": 3, **settings})


def likeliest(script: Script, sequence: list[int], sampler: Sampler) -> tuple[list[tuple[int, float]], float]:
    """Recomputed from the script: the five likeliest tokens with their probabilities, and the entropy."""
    probabilities = sampler.probabilities(script(sequence)[None])[0].tolist()
    ranked = sorted(enumerate(probabilities), key=lambda item: -item[1])[:5]
    return [(token, p) for token, p in ranked if p > 0], -sum(p * math.log(p) for p in probabilities if p)


def check(found: tuple, entropy: float | None, expected: tuple[list[tuple[int, float]], float]) -> None:
    assert [each.id for each in found] == [token for token, _ in expected[0]]
    assert [each.probability for each in found] == pytest.approx([p for _, p in expected[0]])
    assert all(each.text == f"{each.id} " for each in found)
    assert entropy == pytest.approx(expected[1])


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_they_are_the_distributions_of_both_models(drafter: str, temperature: float) -> None:
    sampler = Sampler(SamplingSettings(temperature=temperature))
    sequence = [int(word) for word in PROMPT.split()]
    drafted = 0
    for each in finished_reply(drafter=drafter, temperature=temperature):
        assert len(each.alternatives) == len(each.emitted)
        for place, (alternatives, token) in enumerate(zip(each.alternatives, each.emitted, strict=True)):
            check(alternatives.target, alternatives.target_entropy, likeliest(TARGET, sequence, sampler))
            if each.source == "assistant" and place < len(each.candidates):
                helper = likeliest(ASSISTANT, sequence, sampler)
                check(alternatives.assistant, alternatives.assistant_entropy, helper)
                drafted += 1
            else:
                assert (alternatives.assistant, alternatives.assistant_entropy) == ((), None)
            sequence.append(token.id)
    assert (drafted > 0) == (drafter in ("assistant", "hybrid"))


def test_filtered_tokens_are_no_alternatives() -> None:
    first, *_ = finished_reply(temperature=1.0, top_k=2)
    assert all(len(each.target) == 2 for each in first.alternatives)


def test_recording_can_be_switched_off_and_changes_nothing_else() -> None:
    with_them, without = finished_reply(temperature=0.8), finished_reply(temperature=0.8, alternatives=False)
    assert emitted(with_them) == emitted(without)
    assert {each.alternatives for each in without} == {()}
    assert [each.candidates for each in with_them] == [each.candidates for each in without]


@pytest.mark.parametrize(
    ("settings", "chance"),
    [
        ({}, lambda p, q, stood: float(stood)),
        ({"temperature": 0.8, "rule": "sample-match"}, lambda p, q, stood: p),
        ({"temperature": 0.8, "rule": "speculative"}, lambda p, q, stood: min(1, p / q)),
        ({"temperature": 0.8, "rule": "speculative", "drafter": "lookup"}, lambda p, q, stood: p),
    ],
)
def test_the_acceptance_probability_is_the_rules_own(settings: dict, chance: object) -> None:
    judged = 0
    for each in finished_reply(**settings):
        for place, token in enumerate(each.candidates):
            if place >= each.num_judged:
                assert token.acceptance_probability is None
                continue
            judged += 1
            stood = place < each.num_accepted
            wanted = chance(token.target_probability, token.assistant_probability, stood)  # type: ignore[operator]
            assert token.acceptance_probability == pytest.approx(wanted)
        assert each.next_token is None or each.next_token.acceptance_probability is None
    assert judged > 3


def test_acceptance_happens_as_often_as_its_probability_says() -> None:
    """Summed over many rounds: what was expected and what happened, within four standard deviations."""
    chances, stood = [], 0
    for seed in range(60):
        for each in finished_reply(temperature=1.0, seed=seed, alternatives=False):
            chances += [token.acceptance_probability for token in each.candidates[: each.num_judged]]
            stood += each.num_accepted
    deviation = math.sqrt(sum(p * (1 - p) for p in chances))  # type: ignore[operator]
    assert len(chances) > 1000
    assert abs(stood - sum(chances)) < 4 * deviation  # type: ignore[arg-type]


def test_they_are_frozen_and_plain() -> None:
    first, *_ = finished_reply()
    assert isinstance(first.alternatives[0], Alternatives)
    assert hash(first) is not None


@pytest.mark.parametrize("vocab", [64 * 5, 64 * 40, 1000, 50])
@pytest.mark.parametrize("kind", ["random", "equal", "one", "falling"])
def test_the_largest_and_the_entropy_are_those_of_a_search_everywhere(kind: str, vocab: int) -> None:
    generator = torch.Generator().manual_seed(vocab)
    rows = {
        "random": torch.randn(3, vocab, generator=generator).softmax(-1),
        "equal": torch.full((3, vocab), 1 / vocab),
        "one": torch.eye(vocab)[[0, 7, vocab - 1]],
        "falling": (-torch.arange(vocab).float()).softmax(-1).expand(3, -1),
    }[kind].contiguous()
    values, places = largest(rows, 5)
    assert torch.equal(values, rows.topk(5).values)
    assert torch.equal(rows.gather(1, places), values)
    assert all(len(set(each)) == 5 for each in places.tolist())
    assert torch.allclose(entropy(rows), torch.special.entr(rows).sum(-1), atol=1e-5)
