"""From logits to probabilities to a token: temperature, top-k and top-p as defined, and an exact draw."""

from __future__ import annotations

import math

import pytest
import torch

from app.engine.sampling import Sampler, draw
from app.records import SamplingSettings
from tests.helpers.exact import cumulative, integrate

LOGITS = torch.tensor([[2.0, 0.5, -1.0, 1.0, 0.0], [0.2, 0.0, 3.0, -2.0, 1.0]], dtype=torch.float64)


def by_hand(logits: list[float], temperature: float, top_k: int, top_p: float) -> list[float]:
    """The textbook definition, token by token: the fewest likeliest tokens whose share reaches top_p."""
    weights = [math.exp(each / temperature) for each in logits]
    ranked = sorted(range(len(weights)), key=lambda token: -weights[token])[: top_k or None]
    kept, total = [], sum(weights[token] for token in ranked)
    for token in ranked:
        if sum(weights[each] for each in kept) / total >= top_p:
            break
        kept.append(token)
    return [
        weights[token] / sum(weights[each] for each in kept) * (token in kept)
        for token in range(len(weights))
    ]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("top_k", [0, 1, 3, 99])
@pytest.mark.parametrize("top_p", [0.3, 0.8, 1.0])
def test_probabilities_are_those_of_the_definition(temperature: float, top_k: int, top_p: float) -> None:
    settings = SamplingSettings(temperature=temperature, top_k=top_k, top_p=top_p)
    found = Sampler(settings).probabilities(LOGITS)
    for row, logits in zip(found, LOGITS, strict=True):
        assert row.tolist() == pytest.approx(by_hand(logits.tolist(), temperature, top_k, top_p), abs=1e-12)


def test_greedy_probabilities_are_those_of_the_bare_logits() -> None:
    found = Sampler(SamplingSettings(temperature=0, top_k=1, top_p=0.1)).probabilities(LOGITS)
    assert torch.allclose(found, LOGITS.softmax(-1))


@pytest.mark.parametrize(
    "weights", [[0.2, 0.5, 0.3], [0.0, 1.0, 0.0], [0.0, 0.4, 0.0, 0.6, 0.0], [0.02, 0.05, 0.03], [1e-9, 1.0]]
)
def test_a_draw_follows_its_weights(weights: list[float]) -> None:
    """Exactly; they need not add up to 1, as a residual does not."""
    tensor = torch.tensor(weights, dtype=torch.float64)
    found = integrate(lambda noise: draw(tensor, noise("target", 0)), lambda *_: cumulative(tensor))
    for token, weight in enumerate(weights):
        assert found.get(token, 0.0) == pytest.approx(weight / sum(weights), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_draw_never_takes_a_token_of_probability_zero(dtype: torch.dtype) -> None:
    weights = torch.tensor([0.0, 0.1, 0.0, 0.2, 0.0], dtype=dtype)
    assert draw(weights, 0.0) == 1
    assert draw(weights, 1 - 2.0**-53) == 3
    assert draw(weights, math.nextafter(1 / 3, 0)) in {1, 3}
