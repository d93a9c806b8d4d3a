"""Random tiny pairs, prompts and settings: assisted text is the plain text, and every figure adds up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.engine.cached_model import ModelPair
from app.engine.stats import Statistics
from app.records import Round
from tests.helpers import tiny
from tests.helpers.replies import emitted, reply

TEXT = st.text(alphabet=st.sampled_from("the ships count Zwölf 🙂\nüß{}();"), min_size=1, max_size=40)
STOPS = st.lists(st.text(alphabet=st.sampled_from("the ships\n"), min_size=1, max_size=3), max_size=2)


@dataclass(frozen=True)
class Case:
    """Which pair, and what is asked of it."""

    kind: str
    seed: int
    noise: float
    prompt: str
    budget: int
    stop_strings: tuple[str, ...]
    draft: dict[str, Any]
    sampling: dict[str, Any]


CASES = st.builds(
    Case,
    kind=st.sampled_from(["llama", "gpt2", "mistral-sliding", "gemma3-sliding"]),
    seed=st.integers(0, 2),
    noise=st.sampled_from([0.0, 0.1, 0.5]),
    prompt=TEXT,
    budget=st.integers(1, 24),
    stop_strings=STOPS.map(tuple),
    draft=st.fixed_dictionaries(
        {
            "drafter": st.sampled_from(["assistant", "lookup", "hybrid", "early-exit"]),
            "draft_length": st.integers(1, 9),
            "schedule": st.sampled_from(["constant", "heuristic", "confidence", "automatic"]),
            "confidence_threshold": st.sampled_from([0.0, 0.1, 0.4, 0.9]),
        }
    ),
    sampling=st.fixed_dictionaries(
        {
            "repetition_penalty": st.sampled_from([1.0, 1.3]),
            "frequency_penalty": st.sampled_from([0.0, 0.5]),
        }
    ),
)


@cache
def pair_of(kind: str, seed: int, noise: float) -> ModelPair:
    target = tiny.model(kind, seed)
    return tiny.pair(target, tiny.noisy(target, noise))


def run(case: Case, **more: Any) -> list[Round]:
    settings = {**case.sampling, "stop_strings": case.stop_strings, **more}
    return reply(pair_of(case.kind, case.seed, case.noise), case.prompt, case.budget, **settings)


@given(CASES)
def test_assisted_text_is_the_plain_text(case: Case) -> None:
    plain, assisted = run(case, drafter="none"), run(case, **case.draft)
    assert emitted(assisted) == emitted(plain)
    assert "".join(each.text for each in assisted) == "".join(each.text for each in plain)
    assert assisted[-1].finish_reason == plain[-1].finish_reason
    add_up(assisted, case.budget)


@given(CASES, st.integers(0, 99))
def test_sample_and_match_is_plain_sampling(case: Case, seed: int) -> None:
    sampled = {"temperature": 0.8, "min_p": 0.02, "seed": seed}
    plain = run(case, **sampled, drafter="none")
    assisted = run(case, **sampled, **case.draft, rule="sample-match")
    assert emitted(assisted) == emitted(plain)
    add_up(assisted, case.budget)


@given(CASES, st.integers(0, 99))
def test_speculative_sampling_adds_up(case: Case, seed: int) -> None:
    assisted = run(case, temperature=0.8, seed=seed, **case.draft, rule="speculative")
    add_up(assisted, case.budget)


def add_up(finished: list[Round], budget: int) -> None:
    stats = Statistics.of(finished)
    assert stats.num_accepted <= stats.num_judged <= stats.num_candidates
    cut = finished[-1].next_token is None
    assert stats.num_emitted == stats.num_accepted + stats.num_rounds - cut
    assert stats.num_emitted <= budget
    assert (stats.num_emitted == budget) or finished[-1].finish_reason in ("eos", "stop-string")
    assert sum(each.judged for each in stats.by_source.values()) == stats.num_judged
    assert sum(each.accepted for each in stats.per_position) == stats.num_accepted
    for each in finished:
        assert len(each.alternatives) == len(each.pieces) == len(each.emitted)
        assert sum(token.acceptance_probability is not None for token in each.candidates) == each.num_judged
        assert sum(token.target_probability is not None for token in each.candidates) == each.num_judged
        assert len(each.candidates) <= max(0, budget - each.position - 1)
