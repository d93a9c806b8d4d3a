"""From logits to probabilities to a token, with random numbers that depend on seed and position only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
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


class CountPenalty(LogitsProcessor):  # type: ignore[misc]  # transformers' types are not read
    """Makes tokens that the reply already holds less likely: `presence` once, `frequency` for each occurrence.

    score(x) - presence * [count(x) > 0] - frequency * count(x), as in OpenAI's API; the prompt, the first
    `num_prompt` tokens, does not count.
    """

    def __init__(self, presence: float, frequency: float, num_prompt: int) -> None:
        self._presence = presence
        self._frequency = frequency
        self._num_prompt = num_prompt

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.Tensor:
        """Token ids [rows, length] and scores [rows, vocab] -> scores."""
        reply = input_ids[:, self._num_prompt :]
        counts = torch.zeros_like(scores).scatter_add_(1, reply, torch.ones_like(reply, dtype=scores.dtype))
        return scores - self._presence * (counts > 0) - self._frequency * counts


READ_TOKENS = (RepetitionPenaltyLogitsProcessor, CountPenalty)
"""The processors that look at the tokens so far."""


class Sampler:
    """One distribution for target and assistant alike, in the order of transformers' generate().

    First what holds at any temperature: logit bias, then the penalties, which look at the tokens so far.
    Then, unless greedy: temperature, top-k, top-p, min-p, typical-p.
    """

    def __init__(self, settings: SamplingSettings, num_prompt: int = 0) -> None:
        self.num_prompt = num_prompt
        self._processors = LogitsProcessorList(_processors(settings, num_prompt))
        self._reads_tokens = any(isinstance(each, READ_TOKENS) for each in self._processors)

    def scores(
        self, logits: torch.Tensor, sequence: Sequence[int] = (), candidates: Sequence[int] = ()
    ) -> torch.Tensor:
        """Processed logits [rows, vocab]; where nothing is set, the logits themselves.

        The last row predicts what follows all the candidates, the one before it what follows all but the
        last of them, and so on.
        """
        if not self._processors:
            return logits
        if not self._reads_tokens:
            return self._process(logits, sequence[-1:])
        first = len(candidates) + 1 - len(logits)
        rows = [
            self._process(row[None], [*sequence, *candidates[:known]])
            for known, row in enumerate(logits, first)
        ]
        return torch.cat(rows)

    def probabilities(
        self, logits: torch.Tensor, sequence: Sequence[int] = (), candidates: Sequence[int] = ()
    ) -> torch.Tensor:
        """The distributions [rows, vocab] of those scores."""
        return self.scores(logits, sequence, candidates).softmax(-1)

    def _process(self, logits: torch.Tensor, tokens: Sequence[int]) -> torch.Tensor:
        seen: Any = torch.tensor([list(tokens)], device=logits.device).expand(len(logits), -1)
        processed: torch.Tensor = self._processors(seen, logits)
        return processed


def _processors(settings: SamplingSettings, num_prompt: int) -> Iterator[LogitsProcessor]:
    if settings.logit_bias:
        yield SequenceBiasLogitsProcessor({(token,): float(bias) for token, bias in settings.logit_bias})
    if settings.repetition_penalty != 1:
        yield RepetitionPenaltyLogitsProcessor(settings.repetition_penalty)
    if (settings.presence_penalty, settings.frequency_penalty) != (0, 0):
        yield CountPenalty(settings.presence_penalty, settings.frequency_penalty, num_prompt)
    if settings.greedy:
        return
    if settings.temperature != 1:
        yield TemperatureLogitsWarper(settings.temperature)
    if settings.top_k:
        yield TopKLogitsWarper(settings.top_k)
    if settings.top_p < 1:
        yield TopPLogitsWarper(settings.top_p)
    if settings.min_p > 0:
        yield MinPLogitsWarper(settings.min_p)
    if settings.typical_p < 1:
        yield TypicalLogitsWarper(settings.typical_p)
