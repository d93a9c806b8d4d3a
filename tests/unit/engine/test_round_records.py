"""What a round tells: both models' probabilities, kinds of token, pieces; and that the statistics add up."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pytest

from app.engine.sampling import Sampler
from app.engine.stats import Statistics
from app.records import Round, SamplingSettings
from tests.helpers.replies import count, emitted, reply
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, scripted_pair

TARGET = last_two_tokens(seed=4, vocabulary=6)
ASSISTANT = mixed(TARGET, last_two_tokens(seed=5, vocabulary=6), weight=0.4)
PROMPT = "1 2 3 1 2 0 1 2"
EOS = 0
SETTINGS = [
    {
        "drafter": drafter,
        "temperature": temperature,
        "draft_length": draft_length,
        "schedule": schedule,
        "seed": 3,
    }
    for drafter in ("assistant", "lookup", "none")
    for temperature in (0.0, 0.8)
    for draft_length, schedule in ((1, "constant"), (4, "constant"), (2, "heuristic"))
]


def finished_reply(**settings: object) -> list[Round]:
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    return reply(pair, PROMPT, 60, **settings)


@pytest.mark.parametrize("settings", SETTINGS)
def test_probabilities_are_the_ones_the_rule_compared(settings: dict) -> None:
    """Recomputed from the scripts, without the loop."""
    sampler = Sampler(SamplingSettings(temperature=settings["temperature"]))
    sequence = [int(word) for word in PROMPT.split()]
    for each in finished_reply(**settings):
        for i, token in enumerate(each.candidates):
            before = [*sequence, *(other.id for other in each.candidates[:i])]
            p = float(sampler.probabilities(TARGET(before)[None])[0, token.id])
            q = float(sampler.probabilities(ASSISTANT(before)[None])[0, token.id])
            assert token.target_probability == (pytest.approx(p) if i < each.num_judged else None)
            assert token.assistant_probability == (
                pytest.approx(q) if settings["drafter"] == "assistant" else None
            )
        sequence += [token.id for token in each.emitted]
        after = each.next_token
        assert after is not None
        assert after.target_probability == pytest.approx(
            float(sampler.probabilities(TARGET(sequence[:-1])[None])[0, after.id])
        )
        both = settings["drafter"] == "assistant" and each.next_kind == "recovered"
        assert (after.assistant_probability is not None) == both


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_round_is_consistent(settings: dict) -> None:
    position = 0
    for index, each in enumerate(finished_reply(**settings)):
        assert (each.index, each.position) == (index, position)
        position += len(each.emitted)
        assert 0 <= each.num_accepted <= each.num_judged <= len(each.candidates)
        assert each.num_judged - each.num_accepted == (each.next_kind == "recovered")
        expected = "recovered" if each.rejected else "bonus" if each.candidates else "plain"
        assert each.next_kind == expected
        assert [*each.candidates[: each.num_accepted], *each.rejected] == list(each.candidates)
        assert each.text == "".join(f"{token.id} " for token in each.emitted)
        assert len(each.pieces) == len(each.emitted)
        if each.next_kind == "recovered" and settings["temperature"] == 0:
            assert each.next_token is not None
            assert each.next_token.id != each.rejected[0].id
        assert 0 <= each.draft_seconds + each.verify_seconds <= each.seconds
        assert (each.prefill_seconds > 0) == (index == 0)


@pytest.mark.parametrize("settings", SETTINGS)
def test_statistics_add_up(settings: dict) -> None:
    finished = finished_reply(**settings)
    stats = reduce(Statistics.observe, finished, Statistics())
    assert stats.num_rounds == len(finished)
    assert stats.num_emitted == len(emitted(finished)) == 60
    assert stats.num_emitted == stats.num_accepted + stats.num_rounds
    assert stats.num_accepted <= stats.num_judged <= stats.num_candidates
    assert stats.num_candidates == sum(len(each.candidates) for each in finished)
    assert (
        sum(place.judged for place in stats.per_position) == stats.num_judged == count(finished, "num_judged")
    )
    assert sum(place.accepted for place in stats.per_position) == stats.num_accepted
    judged = [place.judged for place in stats.per_position]
    assert judged == sorted(judged, reverse=True)
    for before, after in zip(stats.per_position, stats.per_position[1:], strict=False):
        assert after.judged <= before.accepted, "judged only behind an accepted one"
    assert stats.tokens_per_round == 60 / len(finished)
    if settings["drafter"] == "none":
        assert (stats.acceptance_rate, stats.per_position, stats.tokens_per_round) == (None, (), 1)
    else:
        assert stats.acceptance_rate == stats.num_accepted / stats.num_judged
    assert stats.decode_seconds == pytest.approx(sum(each.seconds for each in finished))
    assert stats.prefill_seconds == finished[0].prefill_seconds
    assert sum(stats.time_shares) == pytest.approx(1)


def test_a_reply_that_ends_inside_a_draft_is_not_counted_beyond_its_end() -> None:
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(TARGET, 6), eos_ids=(EOS,))
    finished = reply(pair, PROMPT, 60, drafter="assistant", draft_length=8, temperature=0.8, seed=1)
    stats = reduce(Statistics.observe, finished, Statistics())
    assert finished[-1].finish_reason == "eos"
    assert finished[-1].next_token is None, "the seed was chosen so that the end was drafted"
    assert stats.num_emitted == stats.num_accepted + stats.num_rounds - 1


def test_speed_is_of_decoding_alone() -> None:
    first, *_ = finished_reply(drafter="none")
    timed = replace(first, seconds=0.5, draft_seconds=0.1, verify_seconds=0.3, prefill_seconds=9.0)
    stats = Statistics().observe(timed).observe(replace(timed, prefill_seconds=0.0))
    assert stats.tokens_per_second == 2
    assert stats.prefill_seconds == 9
    assert stats.time_shares == pytest.approx((0.2, 0.6, 0.2))


def test_no_figures_before_the_first_round() -> None:
    empty = Statistics()
    assert (empty.acceptance_rate, empty.tokens_per_round, empty.tokens_per_second) == (None, None, None)
    assert empty.time_shares == (0, 0, 0)
