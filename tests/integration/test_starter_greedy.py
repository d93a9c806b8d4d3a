"""The starter pair in float32: greedy assisted text equals plain text equals transformers' generate().

On 24 prompts, for each drafter and draft length. A forward pass over several tokens rounds differently from
one over a single token; the noise of that is measured, and a difference counts as rounding only where the
target's two likeliest logits were closer than the noise. Their number is reported; any other one fails.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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


@dataclass
class Report:
    """What is told at the end: differences that are mere rounding, and accepted candidates by prompt and drafter."""

    rounding: list[str] = field(default_factory=list)
    accepted: dict[str, Counter[str]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def report(noise: float, request: pytest.FixtureRequest) -> Iterator[Report]:
    """Both drafters must have been of use by the end, if every prompt had its turn."""
    collected = Report()
    yield collected
    total = sum(collected.accepted.values(), Counter())
    told = f"noise between widths {noise:.1e}; differences by rounding: {collected.rounding or 'none'}; {dict(total)}"
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled():
        sys.stdout.write(f"\nStarter pair: {told}\n")
    assert len(collected.accepted) < len(PROMPTS) or min(total[drafter] for drafter in DRAFTERS) > 20


@pytest.fixture
def same_up_to_rounding(starter_pair: ModelPair, noise: float, report: Report) -> Callable[..., None]:
    def check(what: str, prompt: list[int], expected: list[int], found: list[int]) -> None:
        if found == expected:
            return
        first = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), None)
        assert first is not None, f"{what}: one text is the beginning of the other"
        rows = row_by_row(starter_pair.target, prompt, expected[:first])
        best, second = rows[-1].topk(2).values.tolist()
        assert best - second < noise, f"{what}: another text from token {first} on"
        report.rounding.append(f"{what} at token {first}")

    return check


def test_the_noise_is_that_of_float32(noise: float) -> None:
    assert 0 < noise < 1e-3


@pytest.mark.parametrize("name", PROMPTS)
def test_every_drafter_writes_what_generate_writes(
    name: str, starter_pair: ModelPair, same_up_to_rounding: Callable[..., None], report: Report
) -> None:
    prompt = starter_pair.text.encode([Message("user", PROMPTS[name])])
    expected = plain(starter_pair, PROMPTS[name], LENGTH)
    same_up_to_rounding(
        f"{name}, generate", prompt, expected, generated(starter_pair.target.model, prompt, LENGTH)
    )
    accepted: Counter[str] = Counter()
    for drafter, draft_length in product(DRAFTERS, DRAFT_LENGTHS):
        finished = reply(starter_pair, PROMPTS[name], LENGTH, drafter=drafter, draft_length=draft_length)
        same_up_to_rounding(f"{name}, {drafter} {draft_length}", prompt, expected, emitted(finished))
        accepted[drafter] += count(finished, "num_accepted")
    report.accepted[name] = accepted
