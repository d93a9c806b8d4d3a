"""Which rule is in force, and which combinations are refused because they would change the text (D5, D7)."""

from __future__ import annotations

from typing import get_args

import pytest

from app import records
from app.engine.rules import choose_rule, make_verifier
from app.errors import UserFacingError
from app.records import DraftSettings, SamplingSettings
from tests.helpers.replies import emitted, plain, reply
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, scripted_pair

TARGET = last_two_tokens(seed=4, vocabulary=6)
ASSISTANT = mixed(TARGET, last_two_tokens(seed=5, vocabulary=6), weight=0.3)
GREEDY, SAMPLED = SamplingSettings(temperature=0), SamplingSettings(temperature=0.7)


@pytest.mark.parametrize("drafter", get_args(records.Drafter))
def test_auto_takes_the_rule_that_is_exact_and_accepts_most(drafter: records.Drafter) -> None:
    draft = DraftSettings(drafter=drafter)
    assert choose_rule(draft, GREEDY) == "match"
    copies = drafter in ("lookup", "none")
    assert choose_rule(draft, SAMPLED) == ("sample-match" if copies else "speculative")


@pytest.mark.parametrize(
    ("rule", "sampling"), [("match", SAMPLED), ("sample-match", GREEDY), ("speculative", GREEDY)]
)
def test_a_rule_that_would_change_the_text_is_refused(rule: records.Rule, sampling: SamplingSettings) -> None:
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    with pytest.raises(UserFacingError) as caught:
        reply(pair, "1 2 3", 5, rule=rule, temperature=sampling.temperature)
    assert caught.value.detail
    assert caught.value.remedy
    assert pair.target.tokens == [], "refused before anything was read"


@pytest.mark.parametrize("rule", ["match", "sample-match", "speculative"])
def test_an_exact_choice_is_kept(rule: records.Rule) -> None:
    assert choose_rule(DraftSettings(rule=rule), GREEDY if rule == "match" else SAMPLED) == rule


def test_auto_is_no_rule_by_itself() -> None:
    with pytest.raises(ValueError, match="choose_rule"):
        make_verifier("auto")


def test_an_assistant_that_is_not_loaded_is_asked_for() -> None:
    pair = scripted_pair(ScriptedModel(TARGET, 6))
    with pytest.raises(UserFacingError, match="No assistant is loaded"):
        reply(pair, "1 2 3", 5, drafter="assistant")
    assert len(emitted(reply(pair, "1 2 3", 5, drafter="assistant", draft_length=0))) == 5
    assert len(emitted(reply(pair, "1 2 3", 5, drafter="lookup"))) == 5


@pytest.mark.parametrize("filters", [{}, {"top_k": 2}, {"top_p": 0.3}, {"top_k": 3, "top_p": 0.5, "seed": 9}])
def test_temperature_zero_is_greedy_whatever_the_filters_say(filters: dict[str, float]) -> None:
    """D5: no error, no warning, the target's first choices."""
    tokens = [1, 2, 3]
    for _ in range(20):
        tokens.append(int(TARGET(tokens).argmax()))
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    assert plain(pair, "1 2 3", 20, temperature=0.0, **filters) == tokens[3:]
    assert emitted(reply(pair, "1 2 3", 20, temperature=0.0, **filters)) == tokens[3:]
