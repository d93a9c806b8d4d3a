"""Under the confidence schedule a draft ends behind the first candidate its drafter was unsure of."""

from __future__ import annotations

import pytest

from app.records import Round
from tests.helpers.replies import emitted, plain, reply
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, scripted_pair

TARGET = last_two_tokens(seed=4, vocabulary=6)
ASSISTANT = mixed(TARGET, last_two_tokens(seed=5, vocabulary=6), weight=0.3)
PROMPT = "1 2 3 1 2 0 1 2"


def drafted(**settings: object) -> list[Round]:
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    return reply(pair, PROMPT, 60, **{"draft_length": 6, "schedule": "confidence", **settings})


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
def test_it_stops_behind_the_first_unsure_candidate_and_keeps_it(
    threshold: float, temperature: float
) -> None:
    finished = drafted(confidence_threshold=threshold, temperature=temperature, seed=1)
    lengths = set()
    for each in finished:
        shares = [token.assistant_probability or 0.0 for token in each.candidates]
        assert all(share >= threshold for share in shares[:-1])
        room = min(6, 60 - each.position - 1)
        assert len(shares) == room or shares[-1] < threshold
        lengths.add(len(shares))
    assert len(lengths) > 1, "some drafts were cut, some not, or not at the same place"


def test_the_text_does_not_change() -> None:
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    for threshold in (0.0, 0.4, 0.8):
        assert emitted(drafted(confidence_threshold=threshold)) == plain(pair, PROMPT, 60)


def test_zero_switches_it_off() -> None:
    """D4: every draft is as long as it may be."""
    finished = drafted(confidence_threshold=0.0)
    assert all(len(each.candidates) == min(6, 60 - each.position - 1) for each in finished)


def test_other_schedules_do_not_look_at_it() -> None:
    finished = drafted(confidence_threshold=1.0, schedule="constant")
    assert all(len(each.candidates) == min(6, 60 - each.position - 1) for each in finished)
