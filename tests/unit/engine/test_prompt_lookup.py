"""The index finds the longest earlier occurrence of the text's end, as a search through the text does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.drafters import prompt_lookup
from app.engine.drafters.prompt_lookup import PromptLookup, RepeatIndex

TEXTS = st.lists(st.integers(0, 3), max_size=60)


def longest_repeat(text: list[int]) -> tuple[int, set[int]]:
    """The length of the longest suffix that occurred before, and the places behind its earlier occurrences."""
    for length in range(len(text) - 1, 0, -1):
        suffix = text[-length:]
        places = {end for end in range(length, len(text)) if text[end - length : end] == suffix}
        if places:
            return length, places
    return 0, set()


@given(TEXTS)
def test_it_finds_the_longest_repeat_at_every_length_of_the_text(text: list[int]) -> None:
    index = RepeatIndex()
    for end, token in enumerate(text, start=1):
        index.extend([token])
        length, places = longest_repeat(text[:end])
        assert index.match_length == length
        assert not length or index.continuation in places
        assert len(index) == end


@given(TEXTS)
def test_it_names_the_latest_place_while_the_text_is_short(text: list[int]) -> None:
    """Matches are told of new places along a limited number of links: 60 tokens rarely need more."""
    index = RepeatIndex()
    index.extend(text)
    length, places = longest_repeat(text)
    if length > 0 and len(set(text)) > 1 and length <= prompt_lookup.MOST_UPDATES:
        assert index.continuation == max(places)


def draft(text: list[int], count: int) -> tuple[int, ...]:
    drafting = PromptLookup().draft(text, lambda source: count)
    with pytest.raises(StopIteration) as done:
        next(drafting)
    ids: tuple[int, ...] = done.value.value.ids
    return ids


@given(TEXTS, st.integers(0, 8))
def test_the_draft_is_what_followed_and_a_run_repeats(text: list[int], count: int) -> None:
    found = draft(text, count)
    length, places = longest_repeat(text)
    if length < prompt_lookup.SHORTEST or count == 0:
        assert found == ()
        return
    continued = [tuple((text[place:] * count)[:count]) for place in places]
    assert found in continued


def test_a_long_context_costs_a_few_steps_a_token() -> None:
    """States and transitions stay linear in the text, also where it repeats one token on end."""
    for text in ([7] * 3000, list(range(1500)) * 2, [i * i % 17 for i in range(3000)]):
        index = RepeatIndex()
        index.extend(text)
        assert len(index._length) <= 2 * len(text)
        assert sum(map(len, index._next)) <= 3 * len(text)


def test_the_work_for_one_more_token_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in links followed, over the whole of a text twice as long: twice as many, not four times."""

    class Counted(list):  # type: ignore[type-arg]
        reads = 0

        def __getitem__(self, place):  # type: ignore[no-untyped-def]
            Counted.reads += 1
            return super().__getitem__(place)

    def work(length: int) -> int:
        Counted.reads = 0
        index = RepeatIndex()
        index._link = Counted(index._link)
        index.extend([5] * length)
        return Counted.reads

    for shorter, longer in pairwise(work(length) for length in (1000, 2000, 4000)):
        assert longer < 2.5 * shorter
