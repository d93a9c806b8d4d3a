"""Random numbers depend on the seed and the position alone, so texts can be repeated.

Sample-and-match writes what plain sampling writes with the same seed, whoever drafts and however much.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch

from app.engine.sampling import keyed_noise, shift
from tests.helpers import tiny
from tests.helpers.replies import count, emitted, plain, reply
from tests.helpers.tiny import noisy

PROMPT = "The ships count the lighthouse, and the ships count"
LENGTH = 32


@pytest.mark.parametrize("kind", ["llama", "gemma3-sliding"])
@pytest.mark.parametrize("drafter", ["assistant", "lookup"])
def test_sample_match_writes_what_plain_sampling_writes(kind: str, drafter: str) -> None:
    target = tiny.model(kind)
    pair = tiny.pair(target, noisy(target, 0.1))
    sampling = {"temperature": 0.2, "top_p": 0.95, "top_k": 50}
    judged = accepted = 0
    for seed in (1, 2):
        expected = plain(pair, PROMPT, LENGTH, seed=seed, **sampling)
        for draft_length, schedule in product((1, 3, 8), ("constant", "heuristic")):
            draft = {"drafter": drafter, "draft_length": draft_length, "schedule": schedule}
            finished = reply(pair, PROMPT, LENGTH, seed=seed, rule="sample-match", **sampling, **draft)
            assert emitted(finished) == expected
            judged += count(finished, "num_judged")
            accepted += count(finished, "num_accepted")
    assert 0 < accepted < judged


@pytest.mark.parametrize("drafter", ["assistant", "lookup", "none"])
def test_one_seed_one_text(drafter: str) -> None:
    target = tiny.model("llama")
    pair = tiny.pair(target, noisy(target, 0.1))

    def text(seed: int) -> list[int]:
        return emitted(reply(pair, PROMPT, LENGTH, temperature=1.0, seed=seed, drafter=drafter))

    first = text(1)
    assert text(2) != first
    assert text(1) == first


def test_a_reply_leaves_the_global_random_numbers_alone() -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    target = tiny.model("llama")
    reply(tiny.pair(target, noisy(target, 0.1)), PROMPT, 8, temperature=1.0, seed=3)
    assert torch.equal(torch.get_rng_state(), before)


def test_noise_depends_on_each_of_its_keys() -> None:
    numbers = {
        keyed_noise(seed)(purpose, position)
        for seed in (0, 1)
        for purpose in ("draft", "accept", "residual", "target")
        for position in range(100)
    }
    assert len(numbers) == 2 * 4 * 100
    assert all(0 <= number < 1 for number in numbers)
    assert shift(keyed_noise(5), 10)("draft", 3) == keyed_noise(5)("draft", 13)


def test_noise_is_uniform() -> None:
    noise = keyed_noise(0)
    numbers = torch.tensor([noise("target", position) for position in range(10_000)])
    counts = torch.histc(numbers, bins=20, min=0, max=1)
    assert float(((counts - 500) ** 2 / 500).sum()) < 50  # chi-square, 19 degrees: 1 in 7,000 is above
