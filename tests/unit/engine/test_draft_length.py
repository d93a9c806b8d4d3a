"""The draft length that was asked for is in force, is shown, and is obeyed (D3); how the heuristic moves."""

from __future__ import annotations

from itertools import pairwise

import pytest

from app.engine.automatic import LONGEST, Automatic
from app.engine.draft_length import Constant, DraftLength, Heuristic, make_draft_length
from app.records import DraftSettings
from tests.helpers.replies import emitted, reply
from tests.helpers.sample_rounds import a_round
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, recited, scripted_pair

TARGET = last_two_tokens(seed=4, vocabulary=6)
ASSISTANT = mixed(TARGET, last_two_tokens(seed=5, vocabulary=6), weight=0.3)
PROMPT = "1 2 3 1 2 0 1 2"
BUDGET = 40


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("draft_length", [1, 2, 5, 16])
def test_a_constant_length_is_obeyed_in_every_round(draft_length: int, temperature: float) -> None:
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    finished = reply(pair, PROMPT, BUDGET, draft_length=draft_length, temperature=temperature)
    assert {each.draft_length for each in finished} == {draft_length}
    for each in finished:
        assert len(each.candidates) == min(draft_length, BUDGET - each.position - 1)


@pytest.mark.parametrize("schedule", ["constant", "heuristic"])
@pytest.mark.parametrize("drafter", ["assistant", "lookup"])
def test_length_zero_is_plain_generation(drafter: str, schedule: str) -> None:
    assistant = ScriptedModel(ASSISTANT, 6)
    pair = scripted_pair(ScriptedModel(TARGET, 6), assistant)
    finished = reply(pair, PROMPT, BUDGET, drafter=drafter, draft_length=0, schedule=schedule)
    assert {(each.draft_length, each.candidates, each.next_kind) for each in finished} == {(0, (), "plain")}
    assert len(finished) == len(emitted(finished)) == BUDGET
    assert assistant.fed == [], "not even the prompt"


@pytest.mark.parametrize("drafter", ["assistant", "lookup"])
def test_the_heuristic_adds_two_or_takes_one(drafter: str) -> None:
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    finished = reply(pair, PROMPT, 80, drafter=drafter, draft_length=3, schedule="heuristic")
    assert finished[0].draft_length == 3
    steps = set()
    for before, now in pairwise(finished):
        assert len(before.candidates) <= before.draft_length
        all_stood = before.num_accepted == len(before.candidates)
        if not all_stood:
            expected = max(1, before.draft_length - 1)
        elif len(before.candidates) == before.draft_length:
            expected = before.draft_length + 2
        else:
            expected = before.draft_length  # cut short: says nothing about longer drafts
        assert now.draft_length == expected
        steps.add(now.draft_length - before.draft_length)
    assert steps >= {2, -1}


def test_the_last_draft_is_cut_by_the_budget_and_not_scored() -> None:
    script = recited([1, 2, *([3] * 30)], 6)
    pair = scripted_pair(ScriptedModel(script, 6), ScriptedModel(script, 6))
    finished = reply(pair, "1 2", 11, draft_length=4, schedule="heuristic")
    # 4 and the bonus token, then 6 are in force, but only 6 of the budget are left: 5 and the bonus token.
    assert [(each.draft_length, len(each.candidates)) for each in finished] == [(4, 4), (6, 5)]
    length = Heuristic(6)
    length.observe(a_round(5, 5))
    assert length.current("assistant") == 6


def test_the_heuristic_keeps_its_bounds() -> None:
    length = Heuristic(2)
    for _ in range(5):
        length.observe(a_round(length.current("assistant"), 0))
    assert length.current("assistant") == 1
    for _ in range(40):
        drafted = length.current("assistant")
        length.observe(a_round(drafted, drafted))
    assert length.current("assistant") == LONGEST
    length.observe(a_round(0, 0))
    assert length.current("assistant") == LONGEST, "a round without a draft says nothing"


def test_the_heuristic_has_a_length_for_each_source() -> None:
    length = Heuristic(3)
    length.observe(a_round(3, 3, "lookup"))
    length.observe(a_round(3, 0, "assistant"))
    assert (length.current("lookup"), length.current("assistant")) == (5, 2)


def test_which_schedule_is_made() -> None:
    assert isinstance(make_draft_length(DraftSettings(schedule="heuristic"), {}), Heuristic)
    assert isinstance(make_draft_length(DraftSettings(schedule="constant"), {}), Constant)
    assert isinstance(make_draft_length(DraftSettings(schedule="confidence"), {}), Constant)
    assert isinstance(make_draft_length(DraftSettings(schedule="heuristic", draft_length=0), {}), Constant)


def test_an_automatic_length_is_kept_for_each_drafter() -> None:
    learnt: dict[str, DraftLength] = {}
    automatic = DraftSettings(schedule="automatic")
    kept = make_draft_length(automatic, learnt)
    assert isinstance(kept, Automatic)
    assert make_draft_length(automatic, learnt) is kept
    assert make_draft_length(DraftSettings(schedule="automatic", drafter="lookup"), learnt) is not kept


@pytest.mark.parametrize("drafter", ["assistant", "lookup", "hybrid"])
def test_an_automatic_reply_is_the_plain_one(drafter: str) -> None:
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    plain = emitted(reply(pair, PROMPT, BUDGET, drafter="none"))
    for _ in range(3):
        assert emitted(reply(pair, PROMPT, BUDGET, drafter=drafter, schedule="automatic")) == plain
    assert isinstance(pair.schedules[drafter], Automatic)
