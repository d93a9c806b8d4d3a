"""Penalties, bias and filters: as transformers' generate() applies them, the same in every mode."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
import torch

from app.engine.cached_model import ModelPair
from app.engine.sampling import Sampler
from app.errors import UserFacingError
from app.records import Message, SamplingSettings
from tests.helpers import tiny
from tests.helpers.replies import count, emitted, plain, reply
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, scripted_pair

PROMPT = "The ships count the lighthouse, and the ships"
LENGTH = 30
LOGITS = torch.tensor([2.0, 0.5, -1.0, 1.0, 0.0], dtype=torch.float64)
CONTROLS: dict[str, dict[str, Any]] = {
    "repetition": {"repetition_penalty": 1.3},
    "presence": {"presence_penalty": 0.8},
    "frequency": {"frequency_penalty": 0.4},
    "bias": {"logit_bias": ((40, 3.0), (12, -50.0))},
    "all": {
        "repetition_penalty": 1.2,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.2,
        "logit_bias": ((40, 2.0),),
    },
}


@cache
def pair() -> ModelPair:
    target = tiny.model("llama")
    return tiny.pair(target, tiny.noisy(target, 0.1))


def probabilities(
    sequence: tuple[int, ...] = (), candidates: tuple[int, ...] = (), num_prompt: int = 0, **settings: Any
) -> list[float]:
    sampler = Sampler(SamplingSettings(**{"temperature": 1.0, **settings}), num_prompt)
    found: list[float] = sampler.probabilities(LOGITS[None], sequence, candidates)[0].tolist()
    return found


def softmax(logits: list[float]) -> list[float]:
    weights = [math.exp(each) for each in logits]
    return pytest.approx([each / sum(weights) for each in weights])


def test_min_p_leaves_out_what_is_less_likely_than_a_share_of_the_likeliest() -> None:
    bare = probabilities()
    kept = [p if p >= 0.2 * max(bare) else 0.0 for p in bare]
    assert 1 < sum(map(bool, kept)) < 5
    assert probabilities(min_p=0.2) == pytest.approx([p / sum(kept) for p in kept])


def test_typical_p_keeps_the_tokens_nearest_to_the_average_surprise() -> None:
    bare = probabilities()
    entropy = -sum(p * math.log(p) for p in bare)
    ranked = sorted(range(5), key=lambda token: abs(-math.log(bare[token]) - entropy))
    kept: list[int] = []
    for token in ranked:
        kept.append(token)
        if sum(bare[each] for each in kept) > 0.5:
            break
    expected = [p * (token in kept) for token, p in enumerate(bare)]
    assert probabilities(typical_p=0.5) == pytest.approx([p / sum(expected) for p in expected])


def test_the_repetition_penalty_looks_at_prompt_and_reply() -> None:
    logits = LOGITS.tolist()
    penalised = [logits[0] / 2, logits[1], logits[2] * 2, logits[3], logits[4]]
    assert probabilities((0, 2), num_prompt=1, repetition_penalty=2.0) == softmax(penalised)
    assert probabilities((0,), (2,), num_prompt=1, repetition_penalty=2.0) == softmax(penalised)


def test_presence_and_frequency_count_the_reply_alone() -> None:
    logits = LOGITS.tolist()
    expected = [logits[0], logits[1] - 0.5 - 2 * 0.3, logits[2], logits[3] - 0.5 - 0.3, logits[4]]
    settings = {"num_prompt": 1, "presence_penalty": 0.5, "frequency_penalty": 0.3}
    assert probabilities((0, 1, 3), (1,), **settings) == softmax(expected)


def test_logit_bias_is_added() -> None:
    logits = LOGITS.tolist()
    assert probabilities(logit_bias=((1, 1.5), (0, -100.0))) == softmax(
        [logits[0] - 100, logits[1] + 1.5, *logits[2:]]
    )


def test_filters_change_nothing_at_temperature_zero() -> None:
    found = probabilities(temperature=0.0, top_k=1, top_p=0.1, min_p=0.9, typical_p=0.1)
    assert found == softmax(LOGITS.tolist())


@pytest.mark.parametrize(("rows", "candidates"), [(3, (1, 0)), (1, (1, 0)), (2, (1, 0)), (1, ())])
def test_each_row_sees_the_tokens_before_it(rows: int, candidates: tuple[int, ...]) -> None:
    sampler = Sampler(SamplingSettings(repetition_penalty=2.0, frequency_penalty=0.5), 2)
    found = sampler.scores(LOGITS.expand(rows, -1), (3, 4, 3), candidates)
    for row in range(rows):
        known = len(candidates) - rows + 1 + row
        alone = sampler.scores(LOGITS[None], (3, 4, 3, *candidates[:known]))
        assert torch.equal(found[row], alone[0])


@pytest.mark.parametrize("settings", [{"repetition_penalty": 1.3}, {"repetition_penalty": 0.8}])
def test_plain_text_is_what_generate_writes_with_a_penalty(settings: dict[str, float]) -> None:
    prompt = pair().text.encode([Message("user", PROMPT)])
    output = pair().target.model.generate(
        torch.tensor([prompt]), do_sample=False, max_new_tokens=LENGTH, **settings
    )
    assert plain(pair(), PROMPT, LENGTH, **settings) == output[0, len(prompt) :].tolist()


@pytest.mark.parametrize("drafter", ["assistant", "lookup", "hybrid", "early-exit"])
@pytest.mark.parametrize("name", CONTROLS)
def test_assisted_text_is_the_plain_text_with_every_control(name: str, drafter: str) -> None:
    settings = CONTROLS[name]
    finished = reply(pair(), PROMPT, LENGTH, drafter=drafter, draft_length=4, **settings)
    assert emitted(finished) == plain(pair(), PROMPT, LENGTH, **settings)
    assert emitted(finished) != plain(pair(), PROMPT, LENGTH), "the control is in force"


@pytest.mark.parametrize("name", CONTROLS)
def test_the_assistant_is_processed_as_the_target(name: str) -> None:
    """A target that drafts for itself is always right, whatever is done to its scores."""
    target = tiny.model("llama")
    finished = reply(tiny.pair(target, target), PROMPT, LENGTH, draft_length=3, **CONTROLS[name])
    assert count(finished, "num_accepted") == count(finished, "num_judged")
    assert count(finished, "num_judged") > LENGTH / 2


@pytest.mark.parametrize("drafter", ["assistant", "lookup", "hybrid"])
def test_sample_and_match_is_plain_sampling_with_every_control(drafter: str) -> None:
    script = last_two_tokens(seed=4, vocabulary=6)
    helper = mixed(script, last_two_tokens(seed=5, vocabulary=6), weight=0.3)
    scripted = scripted_pair(ScriptedModel(script, 6), ScriptedModel(helper, 6))
    settings = {
        "temperature": 0.9,
        "min_p": 0.05,
        "repetition_penalty": 1.2,
        "frequency_penalty": 0.3,
        "logit_bias": ((2, 0.7),),
        "seed": 8,
    }
    finished = reply(
        scripted, "1 2 3 1 2 0 1 2", 40, drafter=drafter, rule="sample-match", draft_length=3, **settings
    )
    assert emitted(finished) == plain(scripted, "1 2 3 1 2 0 1 2", 40, **settings)
    assert 0 < count(finished, "num_accepted") < count(finished, "num_judged")


@pytest.mark.parametrize("token", [-1, 10**6])
def test_a_bias_on_a_token_that_does_not_exist_is_refused(token: int) -> None:
    with pytest.raises(UserFacingError, match="no token") as caught:
        reply(pair(), PROMPT, 4, logit_bias=((token, 1.0),))
    assert caught.value.remedy
