"""Where a reply ends: at an end-of-sequence token (D2), at its budget, or where the model's context is full."""

from __future__ import annotations

from threading import Event

import pytest

from app.engine.cached_model import ModelPair
from app.engine.decoding import rounds
from app.errors import UserFacingError
from tests.helpers.replies import candidates, count, emitted, reply, request
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, recited, scripted_pair

EOS = 9
TARGET = last_two_tokens(seed=4, vocabulary=6)
ASSISTANT = mixed(TARGET, last_two_tokens(seed=5, vocabulary=6), weight=0.3)


def reciting(words: list[int], eos_ids: tuple[int, ...] = (EOS,)) -> ModelPair:
    """Target and assistant agree on the whole text."""
    return differing(words, words, eos_ids)


def differing(target: list[int], assistant: list[int], eos_ids: tuple[int, ...] = (EOS,)) -> ModelPair:
    """Each is certain of a text of its own."""
    return scripted_pair(
        ScriptedModel(recited(target, 12), 12), ScriptedModel(recited(assistant, 12), 12), eos_ids
    )


@pytest.mark.parametrize("where", range(2, 9))
@pytest.mark.parametrize("draft_length", [0, 1, 3, 8])
def test_nothing_behind_the_end_is_emitted_or_counted(where: int, draft_length: int) -> None:
    words = [1, 2, *([3] * (where - 2)), EOS, 4, 4, 4, 4, 4, 4, 4, 4]
    pair = reciting(words)
    finished = reply(pair, "1 2", 30, draft_length=draft_length)
    assert emitted(finished) == words[2 : where + 1]
    assert [each.finish_reason for each in finished] == [None] * (len(finished) - 1) + ["eos"]
    assert finished[-1].emitted[-1].id == EOS
    assert count(finished, "num_judged") == count(finished, "num_accepted") <= where - 1
    assert len(pair.target.tokens) == where


def test_a_lookup_that_copies_past_the_end() -> None:
    """The end is drafted in the middle of the block, with more candidates behind it (D2)."""
    words = [3, 4, EOS, 5, 6, 3, 4, EOS, 5, 6]
    finished = reply(reciting(words), "3 4 9 5 6 3 4", 20, drafter="lookup", draft_length=3)
    assert candidates(finished[0]) == [EOS, 5, 6]
    assert emitted(finished) == [EOS]
    only = finished[0]
    assert (only.num_accepted, only.num_judged, only.next_token, only.next_kind) == (1, 1, None, None)
    assert (only.finish_reason, len(only.pieces)) == ("eos", 1)


def test_an_assistant_stops_drafting_at_the_end() -> None:
    finished = reply(reciting([1, 2, 3, EOS, 4, 4]), "1 2", 30, draft_length=8)
    assert candidates(finished[0]) == [3, EOS]
    assert (finished[0].num_accepted, finished[0].next_token) == (2, None)


def test_every_id_of_an_eos_list_ends_the_reply() -> None:
    for end in (7, 8):
        finished = reply(reciting([1, 2, 3, end, 4], eos_ids=(7, 8)), "1 2", 30, draft_length=4)
        assert emitted(finished) == [3, end]
        assert finished[-1].finish_reason == "eos"


def test_a_drafted_end_that_the_target_rejects_ends_nothing() -> None:
    words = [1, 2, 3, 4, 5, 6, 7]
    pair = differing(words, [1, 2, 3, EOS])
    finished = reply(pair, "1 2", 5, draft_length=4)
    assert candidates(finished[0])[:2] == [3, EOS]
    assert (finished[0].num_accepted, finished[0].num_judged) == (1, 2)
    assert emitted(finished) == words[2:]
    assert finished[-1].finish_reason == "length"


def test_the_end_as_recovered_or_bonus_token() -> None:
    ending = [1, 2, 3, EOS, 5]
    *_, last = reply(differing(ending, [1, 2, 3, 4, 5]), "1 2", 9, draft_length=3)
    assert (last.next_kind, last.finish_reason) == ("recovered", "eos")
    *_, last = reply(reciting(ending), "1 2", 9, draft_length=1)
    assert (last.next_kind, last.finish_reason) == ("bonus", "eos")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", ["assistant", "lookup", "none"])
@pytest.mark.parametrize("budget", [1, 2, 3, 7, 20])
def test_the_budget_is_met_exactly(budget: int, drafter: str, temperature: float) -> None:
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    remaining = budget
    for each in rounds(pair, request("1 2 0 1 2", budget, drafter=drafter, temperature=temperature), Event()):
        assert len(each.candidates) <= remaining - 1
        remaining -= len(each.emitted)
        assert each.finish_reason == ("length" if remaining == 0 else None)
        assert each.next_token is not None
    assert remaining == 0


@pytest.mark.parametrize("draft_length", [0, 1, 3, 8])
def test_a_full_context_ends_the_reply(draft_length: int) -> None:
    """The scripted model refuses to read beyond its context."""
    pair = scripted_pair(ScriptedModel(TARGET, 6, context_length=12), ScriptedModel(ASSISTANT, 6))
    finished = reply(pair, "1 2 3", 30, draft_length=draft_length)
    assert len(emitted(finished)) == 12 - 3
    assert finished[-1].finish_reason == "context"


def test_a_prompt_just_within_the_context_gets_one_token() -> None:
    finished = reply(scripted_pair(ScriptedModel(TARGET, 6, context_length=4)), "1 2 3", 30, drafter="none")
    assert (len(emitted(finished)), finished[-1].finish_reason) == (1, "context")


@pytest.mark.parametrize("context_length", [2, 3])
def test_a_prompt_that_fills_the_context_is_refused(context_length: int) -> None:
    pair = scripted_pair(ScriptedModel(TARGET, 6, context_length=context_length))
    with pytest.raises(UserFacingError, match="longer than the model can read") as caught:
        reply(pair, "1 2 3", 30, drafter="none")
    assert caught.value.remedy


@pytest.mark.parametrize("context_length", [2, 6, 8])
def test_an_assistant_with_a_shorter_context_stops_helping(context_length: int) -> None:
    """It is never fed beyond its own context, not even the prompt, and the text is the target's."""
    assistant = ScriptedModel(ASSISTANT, 6, context_length=context_length)
    pair = scripted_pair(ScriptedModel(TARGET, 6), assistant)
    finished = reply(pair, "1 2 3 4", 12, draft_length=3)
    assert emitted(finished) == emitted(reply(pair, "1 2 3 4", 12, drafter="none"))
    assert any(each.candidates for each in finished) == (context_length > 4)
    assert not finished[-2].candidates


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(UserFacingError) as caught:
        reply(scripted_pair(ScriptedModel(TARGET, 6)), "", 5, drafter="none")
    assert caught.value.remedy
