"""Greedy assisted text equals plain text equals transformers' generate(), token for token, in float64.

Every drafter under every schedule on tiny models of every family, three of them with a sliding window shorter
than the prompt (D8); assistants that agree in part, always, and never; lookups that find something.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest

from app.engine.cached_model import CachedModel, ModelPair
from app.records import Message
from tests.helpers import tiny
from tests.helpers.replies import candidates, count, emitted, plain, reply
from tests.helpers.scripted import ScriptedModel, last_two_tokens, recited, scripted_pair

PROMPT = "The ships count the lighthouse, and the ships"
LENGTH = 40
DRAFTERS = ("assistant", "lookup", "hybrid", "early-exit")
DRAFT_LENGTHS = (1, 4)
SCHEDULES = ("constant", "heuristic", "confidence", "automatic")


@cache
def partly_agreeing(kind: str) -> ModelPair:
    target = tiny.model(kind)
    return tiny.pair(target, tiny.noisy(target, 0.1))


@cache
def generated(kind: str) -> list[int]:
    pair = partly_agreeing(kind)
    return tiny.generated(pair.target.model, pair.text.encode([Message("user", PROMPT)]), LENGTH)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_plain_text_is_what_generate_writes(kind: str) -> None:
    assert plain(partly_agreeing(kind), PROMPT, LENGTH) == generated(kind)
    assert len(set(generated(kind))) > 4, "a text worth comparing"


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_assisted_text_is_what_generate_writes(kind: str, drafter: str) -> None:
    judged = accepted = 0
    for draft_length, schedule in product(DRAFT_LENGTHS, SCHEDULES):
        finished = reply(
            partly_agreeing(kind),
            PROMPT,
            LENGTH,
            drafter=drafter,
            draft_length=draft_length,
            schedule=schedule,
        )
        assert emitted(finished) == generated(kind), f"{draft_length} {schedule}"
        judged += count(finished, "num_judged")
        accepted += count(finished, "num_accepted")
    assert accepted < judged, "some were rejected"
    assert accepted > 0 or drafter == "early-exit", "some stood; untrained first layers need not agree"


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_assistant_with_another_tokenizer(kind: str, schedule: str) -> None:
    """Its drafts are translated, and the text is still the target's."""
    own = tiny.other_tokenizer()
    target, assistant = CachedModel(tiny.model(kind)), CachedModel(tiny.model("llama", vocab_size=len(own)))
    pair = tiny.pair_of_two_tokenizers(target, assistant, own)
    finished = reply(pair, PROMPT, LENGTH, draft_length=3, schedule=schedule)
    assert emitted(finished) == generated(kind)
    assert any(each.candidates for each in finished)


@pytest.mark.parametrize("kind", [kind for kind in tiny.KINDS if kind.endswith("sliding")])
def test_the_sliding_window_is_in_force(kind: str) -> None:
    """The same weights with a window as long as the text write something else."""
    wide = tiny.pair(tiny.model(kind, sliding_window=512))
    assert plain(wide, PROMPT, LENGTH) != generated(kind)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_an_assistant_of_another_family(kind: str) -> None:
    """Its first choices are nearly always wrong, and the text is still the target's."""
    other = tiny.model("gpt2" if kind != "gpt2" else "llama", seed=5)
    finished = reply(tiny.pair(tiny.model(kind), other), PROMPT, LENGTH, draft_length=3)
    assert emitted(finished) == generated(kind)


@pytest.mark.parametrize("draft_length", DRAFT_LENGTHS)
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_the_target_as_its_own_assistant_accepts_everything(kind: str, draft_length: int) -> None:
    target = tiny.model(kind)
    finished = reply(tiny.pair(target, target), PROMPT, LENGTH, draft_length=draft_length)
    assert emitted(finished) == generated(kind)
    assert all(each.num_accepted == each.num_judged == len(each.candidates) for each in finished)
    assert {each.next_kind for each in finished if each.candidates} == {"bonus"}
    num_full, left = divmod(LENGTH, draft_length + 1)
    drafted = [len(each.candidates) for each in finished]
    assert drafted == [draft_length] * num_full + [left - 1] * (left > 0), "only the budget cuts a draft"


@pytest.mark.parametrize("settings", [{"draft_length": 3}, {"draft_length": 8, "schedule": "heuristic"}])
def test_an_assistant_that_is_always_wrong(settings: dict[str, Any]) -> None:
    target = last_two_tokens(seed=3, vocabulary=7)
    prompt = "1 2 3"
    pair = scripted_pair(ScriptedModel(target, 7), ScriptedModel(lambda tokens: -target(tokens), 7))
    finished = reply(pair, prompt, LENGTH, **settings)
    assert emitted(finished) == plain(pair, prompt, LENGTH)
    assert count(finished, "num_accepted") == 0
    assert len(finished) == LENGTH
    assert {each.next_kind for each in finished[:-1]} == {"recovered"}
    assert finished[-1].next_kind == "plain", "one token left: nothing to draft"


def test_a_lookup_repeats_what_the_prompt_says() -> None:
    words = [4, 5, 6, 7, 8, 9, 1, 2]
    text = [*words, 4, 5, *words[2:], *words]
    pair = scripted_pair(ScriptedModel(recited(text, 10), 10))
    first, *_ = reply(pair, "4 5 6 7 8 9 1 2 4 5", 14, drafter="lookup", draft_length=6)
    assert candidates(first) == [6, 7, 8, 9, 1, 2]
    assert first.num_accepted == 6


def test_a_lookup_goes_on_where_its_source_ends() -> None:
    """The text repeats "1 2": the copy runs into its own end and starts over."""
    pair = scripted_pair(ScriptedModel(recited([1, 2] * 10, 4), 4))
    first, *_ = reply(pair, "1 2 1 2", 10, drafter="lookup", draft_length=5)
    assert candidates(first) == [1, 2, 1, 2, 1]


def test_a_lookup_prefers_the_longest_and_then_the_latest_match() -> None:
    pair = scripted_pair(ScriptedModel(recited([], 10), 10))
    longest, *_ = reply(pair, "1 2 3 7 0 2 3 8 1 2 3", 5, drafter="lookup", draft_length=1)
    latest, *_ = reply(pair, "2 3 7 0 2 3 8 1 2 3", 5, drafter="lookup", draft_length=1)
    assert (candidates(longest), candidates(latest)) == ([7], [8])
