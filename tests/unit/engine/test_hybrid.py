"""Lookup where the text repeats, the assistant elsewhere; each source's acceptance and length apart."""

from __future__ import annotations

from itertools import pairwise

import pytest

from app.engine.draft_length import Constant
from app.engine.stats import Statistics
from app.errors import UserFacingError
from app.records import Round, Source
from tests.helpers.replies import candidates, count, emitted, plain, reply
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, recited, scripted_pair

VOCABULARY = 12
NOVEL = [1, 2, 3, 4, 5, 6, 7, 8]
TEXT = [*NOVEL, 9, 9, *NOVEL, 10, 11]  # says something new and then repeats it


def pair_reading(text: list[int]):  # type: ignore[no-untyped-def]
    script = recited(text, VOCABULARY)
    return scripted_pair(ScriptedModel(script, VOCABULARY), ScriptedModel(script, VOCABULARY))


def test_a_repetition_is_copied_and_the_rest_is_drafted_by_the_assistant() -> None:
    finished = reply(pair_reading(TEXT), "1 2 3", len(TEXT) - 3, drafter="hybrid", draft_length=3)
    assert emitted(finished) == TEXT[3:]
    sources = {each.position + 3: each.source for each in finished if each.candidates}
    assert {source for place, source in sources.items() if place <= 11} == {"assistant"}
    assert "lookup" in {source for place, source in sources.items() if place > 12}
    assert all(token.source == each.source for each in finished for token in each.candidates)


def test_statistics_keep_the_sources_apart() -> None:
    target = last_two_tokens(seed=4, vocabulary=6)
    helper = mixed(target, last_two_tokens(seed=5, vocabulary=6), weight=0.3)
    pair = scripted_pair(ScriptedModel(target, 6), ScriptedModel(helper, 6))
    finished = reply(pair, "1 2 3 1 2 0 1 2", 60, drafter="hybrid", draft_length=3, temperature=0.7, seed=2)
    stats = Statistics.of(finished)
    assert list(stats.by_source) == list(dict.fromkeys(each.source for each in finished if each.source))
    assert set(stats.by_source) == {"assistant", "lookup"}
    for source, counted in stats.by_source.items():
        own = [each for each in finished if each.source == source]
        assert counted.judged == count(own, "num_judged")
        assert counted.accepted == count(own, "num_accepted")
    assert sum(each.judged for each in stats.per_position) == stats.num_judged


def test_a_lookup_reads_no_model_and_a_copied_text_is_read_later() -> None:
    pair = pair_reading(TEXT)
    assert pair.assistant is not None
    finished = reply(pair, "1 2 3", len(TEXT) - 3, drafter="hybrid", draft_length=3)
    fed = [token for ids in pair.assistant.fed for token in ids]  # type: ignore[attr-defined]
    drafted = sum(len(each.candidates) for each in finished if each.source == "assistant")
    assert len(fed) < len(TEXT) + drafted
    assert fed[:3] == [1, 2, 3]


class ByKind(Constant):
    """A schedule that wants no lookups, or no drafts of the assistant."""

    def __init__(self, wanted: Source) -> None:
        super().__init__(3)
        self._wanted = wanted

    def current(self, source: Source) -> int:
        return 3 if source == self._wanted else 0


@pytest.mark.parametrize("wanted", ["assistant", "lookup"])
def test_a_source_whose_length_is_zero_is_left_out(wanted: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.opening.make_draft_length", lambda settings, learnt: ByKind(wanted))
    finished = reply(pair_reading(TEXT), "1 2 3", len(TEXT) - 3, drafter="hybrid")
    assert emitted(finished) == TEXT[3:]
    assert {each.source for each in finished} <= {wanted, None}
    assert wanted in {each.source for each in finished}


def test_the_heuristic_length_of_each_source_moves_by_itself() -> None:
    target = last_two_tokens(seed=4, vocabulary=6)
    helper = mixed(target, last_two_tokens(seed=5, vocabulary=6), weight=0.3)
    pair = scripted_pair(ScriptedModel(target, 6), ScriptedModel(helper, 6))
    finished = reply(pair, "1 2 3 1 2 0 1 2", 80, drafter="hybrid", draft_length=3, schedule="heuristic")
    assert emitted(finished) == plain(pair, "1 2 3 1 2 0 1 2", 80)
    for source in ("assistant", "lookup"):
        own = [each for each in finished if each.source == source]
        for before, now in pairwise(own):
            assert now.draft_length == expected_length(before)


def expected_length(before: Round) -> int:
    if before.num_accepted < len(before.candidates):
        return max(1, before.draft_length - 1)
    return before.draft_length + 2 * (len(before.candidates) == before.draft_length)


def test_without_an_assistant_it_is_refused() -> None:
    with pytest.raises(UserFacingError, match="No assistant"):
        reply(scripted_pair(ScriptedModel(recited(TEXT, 12), 12)), "1 2", 5, drafter="hybrid")


def test_a_copy_is_preferred_to_a_draft() -> None:
    wrong = scripted_pair(ScriptedModel(recited(TEXT, 12), 12), ScriptedModel(recited(TEXT, 12, shift=1), 12))
    first, *_ = reply(wrong, "1 2 3 4 5 6 7 8 9 9 1 2", 6, drafter="hybrid", draft_length=4)
    assert candidates(first) == [3, 4, 5, 6]
    assert first.num_accepted == 4
