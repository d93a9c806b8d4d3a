"""A reply ends before a stop string, wherever token borders fall, assisted as plain (D1)."""

from __future__ import annotations

import pytest

from app.engine.cached_model import ModelPair
from app.engine.text import StopStrings
from tests.helpers import tiny
from tests.helpers.replies import emitted, reply
from tests.helpers.scripted import ScriptedModel, recited, scripted_pair


def shown(strings: tuple[str, ...], pieces: list[str]) -> tuple[list[str], bool]:
    """What is shown piece by piece, the rest that no text follows as the last one; and whether one was found."""
    stop = StopStrings(strings)
    out = []
    for piece in pieces:
        out.append(stop.push(piece))
        if stop.found:
            return out, True
    return [*out, stop.flush()], False


@pytest.mark.parametrize(
    ("strings", "pieces", "expected", "found"),
    [
        (("END",), ["one ", "END", " two"], ["one ", ""], True),
        (("END",), ["one E", "N", "D two"], ["one ", "", ""], True),
        (("END",), ["one E", "N", "ough"], ["one ", "", "ENough", ""], False),
        (("END",), ["one EN"], ["one ", "EN"], False),
        (("aab",), ["a", "a", "a", "b"], ["", "", "a", ""], True),
        (("bc", "abcd"), ["ab", "c"], ["", "a"], True),
        (("x", "longer"), ["a longe", "x"], ["a ", "longe"], True),
        ((), ["any", "thing"], ["any", "thing", ""], False),
        (("",), ["any"], ["any", ""], False),
    ],
)
def test_text_that_may_begin_a_stop_string_is_held_back(
    strings: tuple[str, ...], pieces: list[str], expected: list[str], found: bool
) -> None:
    assert shown(strings, pieces) == (expected, found)


WORDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def numbers(shift: int = 0) -> ModelPair:
    """Recites 3 4 5 ... behind the prompt "1 2"; token 7 reads "7 "."""
    script = recited(WORDS, 12)
    return scripted_pair(ScriptedModel(script, 12), ScriptedModel(recited(WORDS, 12, shift), 12))


@pytest.mark.parametrize("draft_length", [0, 1, 2, 3, 5])
@pytest.mark.parametrize(
    ("stop", "text", "ids"),
    [
        ("6", "3 4 5 ", [3, 4, 5, 6]),
        ("4 5", "3 ", [3, 4, 5]),
        (" 5 6 7", "3 4", [3, 4, 5, 6, 7]),
        ("3", "", [3]),
    ],
)
def test_it_is_cut_off_at_the_token_that_completes_it(
    stop: str, text: str, ids: list[int], draft_length: int
) -> None:
    finished = reply(numbers(), "1 2", 8, draft_length=draft_length, stop_strings=(stop,))
    assert "".join(each.text for each in finished) == text
    assert emitted(finished) == ids
    assert [each.finish_reason for each in finished] == [None] * (len(finished) - 1) + ["stop-string"]
    assert all(len(each.pieces) == len(each.emitted) for each in finished)


def test_candidates_behind_it_are_neither_emitted_nor_counted() -> None:
    (only,) = reply(numbers(), "1 2", 8, draft_length=5, stop_strings=("4",))
    assert len(only.candidates) == 5
    assert (only.num_accepted, only.num_judged, only.next_token) == (2, 2, None)
    assert len(only.alternatives) == 2


def test_a_candidate_that_would_complete_it_but_is_rejected_ends_nothing() -> None:
    pair = scripted_pair(
        ScriptedModel(recited(WORDS, 12), 12), ScriptedModel(recited([1, 2, 3, 11, 11], 12), 12)
    )
    finished = reply(pair, "1 2", 6, draft_length=3, stop_strings=("11",))
    assert emitted(finished) == WORDS[2:8]
    assert finished[-1].finish_reason == "length"


def test_held_text_is_not_lost_when_the_reply_ends_otherwise() -> None:
    finished = reply(numbers(), "1 2", 3, draft_length=2, stop_strings=("5 6",))
    assert finished[-1].finish_reason == "length"
    assert "".join(each.text for each in finished) == "3 4 5 "


@pytest.mark.parametrize("drafter", ["none", "assistant", "lookup", "hybrid", "early-exit"])
def test_real_tokens_end_at_the_same_place_with_every_drafter(drafter: str) -> None:
    target = tiny.model("llama")
    pair = tiny.pair(target, tiny.noisy(target, 0.1))
    prompt = "The ships count the lighthouse, and the ships"
    whole = "".join(each.text for each in reply(pair, prompt, 40, drafter="none"))
    for start in range(3, len(whole) - 3, 7):
        stop = whole[start : start + 3]
        finished = reply(pair, prompt, 40, drafter=drafter, stop_strings=("never there", stop))
        assert "".join(each.text for each in finished) == whole[: whole.index(stop)]
        assert finished[-1].finish_reason == "stop-string"
