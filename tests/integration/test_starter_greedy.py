"""The starter pair in float32: greedy assisted text equals plain text equals transformers' generate().

On 24 prompts, for each drafter and draft length. A forward pass over several tokens rounds differently from
one over a single token; the noise of that is measured, and a difference counts as rounding only where the
target's two likeliest logits were closer than the noise. Their number is reported; any other one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch

from app.engine.cached_model import CachedModel, ModelPair
from app.records import Message
from tests.helpers.prompts import PROMPTS
from tests.helpers.replies import count, emitted, plain, reply
from tests.helpers.tiny import generated

pytestmark = pytest.mark.starter

LENGTH = 16
DRAFTERS = ("assistant", "lookup")
DRAFT_LENGTHS = (1, 3, 8)


def row_by_row(model: CachedModel, prompt: list[int], answer: list[int]) -> torch.Tensor:
    """Logits [len(answer) + 1, vocab] before each token of the answer and behind it, from passes over one token."""
    model.crop(0)
    first = model.forward(prompt, keep=1)
    return torch.cat([first, *(model.forward([token]) for token in answer)])


@pytest.fixture(scope="module")
def noise(starter_pair: ModelPair) -> float:
    """How far the same logits are apart between passes over one token and over nine (draft length 8)."""
    largest = 0.0
    for name in ("code-1", "copy-5"):
        prompt = starter_pair.text.encode([Message("user", PROMPTS[name])])
        narrow = row_by_row(starter_pair.target, prompt[:-18], prompt[-18:])[1:]
        starter_pair.target.crop(len(prompt) - 18)
        wide = torch.cat([starter_pair.target.forward(prompt[start:][:9]) for start in (-18, -9)])
        largest = max(largest, float((narrow - wide).abs().max()))
    return largest


@pytest.fixture(scope="module")
def rounding(noise: float, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Collects the differences that are mere rounding, and reports them at the end."""
    found: list[str] = []
    yield found
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"\nnoise between widths {noise:.1e}; differences by rounding: {found or 'none'}")


@pytest.fixture
def same_up_to_rounding(starter_pair: ModelPair, noise: float, rounding: list[str]) -> Callable[..., None]:
    def check(what: str, prompt: list[int], expected: list[int], found: list[int]) -> None:
        if found == expected:
            return
        first = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), None)
        assert first is not None, f"{what}: one text is the beginning of the other"
        rows = row_by_row(starter_pair.target, prompt, expected[:first])
        best, second = rows[-1].topk(2).values.tolist()
        assert best - second < noise, f"{what}: another text from token {first} on"
        rounding.append(f"{what} at token {first}")

    return check


def test_the_noise_is_that_of_float32(noise: float) -> None:
    assert 0 < noise < 1e-3


@pytest.mark.parametrize("name", PROMPTS)
def test_every_drafter_writes_what_generate_writes(
    name: str,
    starter_pair: ModelPair,
    same_up_to_rounding: Callable[..., None],
    record_property: Callable[[str, object], None],
) -> None:
    prompt = starter_pair.text.encode([Message("user", PROMPTS[name])])
    expected = plain(starter_pair, PROMPTS[name], LENGTH)
    same_up_to_rounding(
        f"{name}, generate", prompt, expected, generated(starter_pair.target.model, prompt, LENGTH)
    )
    accepted = dict.fromkeys(DRAFTERS, 0)
    for drafter, draft_length in product(DRAFTERS, DRAFT_LENGTHS):
        finished = reply(starter_pair, PROMPTS[name], LENGTH, drafter=drafter, draft_length=draft_length)
        same_up_to_rounding(f"{name}, {drafter} {draft_length}", prompt, expected, emitted(finished))
        accepted[drafter] += count(finished, "num_accepted")
    record_property("accepted", accepted)
    assert accepted["assistant"] > 0
    assert accepted["lookup"] > 0 or not name.startswith("copy")
