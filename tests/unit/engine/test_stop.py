"""Stop acts within one draft token or one forward pass (D9), wherever it comes, and harms nothing."""

from __future__ import annotations

from threading import Event

import pytest

from app.engine.cached_model import ModelPair
from app.engine.decoding import rounds
from app.engine.opening import PREFILL_CHUNK
from app.records import Progress
from tests.helpers.replies import emitted, reply, request
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, scripted_pair

TARGET = last_two_tokens(seed=4, vocabulary=6)
ASSISTANT = mixed(TARGET, last_two_tokens(seed=5, vocabulary=6), weight=0.3)
PROMPT = "1 2 3 " * PREFILL_CHUNK  # three chunks each


def counted_pair(stop: Event, stop_in_pass: int) -> tuple[ModelPair, list[int]]:
    """Sets `stop` during the given pass (counted over both models); lists the passes that began after that."""
    target, assistant = ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6)
    begun, late = [], []

    def before_forward(count: int) -> None:
        if stop.is_set():
            late.append(count)
        begun.append(count)
        if len(begun) == stop_in_pass:
            stop.set()

    target.before_forward = assistant.before_forward = before_forward
    return scripted_pair(target, assistant), late


@pytest.mark.parametrize("stop_in_pass", range(1, 30))
def test_no_pass_begins_after_stop(stop_in_pass: int) -> None:
    """Six passes of prefill, then rounds of four draft tokens and one verification."""
    stop = Event()
    pair, late = counted_pair(stop, stop_in_pass)
    finished = list(rounds(pair, request(PROMPT, 400, draft_length=4), stop))
    assert stop.is_set()
    assert late == []
    assert all(each.finish_reason is None for each in finished)
    assert len(finished) == max(0, (stop_in_pass - 6) // 5)


def test_stop_between_rounds() -> None:
    stop = Event()
    pair, late = counted_pair(stop, stop_in_pass=0)
    stream = rounds(pair, request(PROMPT, 400, draft_length=4), stop)
    next(stream)
    stop.set()
    assert list(stream) == []
    assert late == []


def test_stop_before_the_start() -> None:
    stop = Event()
    stop.set()
    pair, late = counted_pair(stop, stop_in_pass=0)
    assert list(rounds(pair, request(PROMPT, 400), stop)) == []
    assert late == []


@pytest.mark.parametrize("stop_in_pass", [1, 2, 5, 8, 9, 10, 11, 14])
def test_the_next_reply_is_the_right_one(stop_in_pass: int) -> None:
    stop = Event()
    pair, _ = counted_pair(stop, stop_in_pass)
    list(rounds(pair, request(PROMPT, 400, draft_length=4), stop))
    expected = reply(scripted_pair(ScriptedModel(TARGET, 6)), PROMPT + "5", 20, drafter="none")
    assert emitted(reply(pair, PROMPT + "5", 20, draft_length=4)) == emitted(expected)


def test_reading_the_prompt_is_reported_before_each_chunk() -> None:
    heard: list[Progress] = []
    pair, _ = counted_pair(Event(), stop_in_pass=0)
    list(rounds(pair, request(PROMPT, 2), Event(), heard.append))
    assert [each.share for each in heard] == sorted(each.share or 0 for each in heard)
    assert (len(heard), heard[0].share) == (6, 0)
    assert all(each.share is not None and each.share < 1 for each in heard)
