"""From logits to probabilities to a token, with random numbers that depend on seed and position only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Literal

import torch
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from app.records import SamplingSettings

Purpose = Literal["draft", "accept", "residual", "target"]
Noise = Callable[[Purpose, int], float]
"""Gives the uniform number in [0, 1) for a purpose at a position of the sequence."""


def keyed_noise(seed: int) -> Noise:
    """Uniform numbers that are a function of (seed, purpose, position) alone.

    Neither call order nor draft length changes them, so that a reply does not depend on timing and
    sample-and-match repeats plain sampling token for token.
    """

    def noise(purpose: Purpose, position: int) -> float:
        digest = hashlib.blake2b(f"{seed}:{purpose}:{position}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 11) * 2.0**-53

    return noise


def shift(noise: Noise, start: int) -> Noise:
    """The same numbers, counted from position `start`."""
    return lambda purpose, position: noise(purpose, start + position)


def draw(probabilities: torch.Tensor, uniform: float) -> int:
    """The token [vocab] -> id at which the cumulative distribution passes `uniform`; never one of probability 0."""
    cumulative = probabilities.cpu().double().cumsum(-1)  # Apple's GPUs have no float64
    threshold = cumulative[-1] * uniform
    index = int(torch.searchsorted(cumulative, threshold, right=True))
    # A uniform number next to 1 can round up to the very end.
    return index if index < len(probabilities) else int(probabilities.nonzero()[-1])


_UNSEEN: Any = torch.empty(0, dtype=torch.long)
"""Processors take the tokens so far as their first argument; those used here do not look at them."""


class Sampler:
    """One distribution for target and assistant alike: temperature, then top-k, then top-p."""

    def __init__(self, settings: SamplingSettings) -> None:
        self._processors = LogitsProcessorList()
        if settings.temperature not in (0, 1):
            self._processors.append(TemperatureLogitsWarper(settings.temperature))
        if settings.top_k and not settings.greedy:
            self._processors.append(TopKLogitsWarper(settings.top_k))
        if settings.top_p < 1 and not settings.greedy:
            self._processors.append(TopPLogitsWarper(settings.top_p))

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [rows, vocab] -> probabilities of the same shape; when greedy, those of the bare logits."""
        scores = self._processors(_UNSEEN, logits) if self._processors else logits
        return scores.softmax(-1)
