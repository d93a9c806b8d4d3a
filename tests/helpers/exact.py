"""Exact distributions: of a random function, by integrating over its uniform numbers, and of a language model."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch

from app.engine.sampling import Noise, Purpose

Result = TypeVar("Result")
Key = tuple[Purpose, int]
Breakpoints = Callable[[Purpose, int], Iterable[float]]
Next = Callable[[tuple[int, ...]], torch.Tensor]
"""Tokens so far -> the distribution [vocab] of the next one."""


class _Asked(Exception):
    def __init__(self, key: Key) -> None:
        self.key = key


def integrate(function: Callable[[Noise], Result], breakpoints: Breakpoints) -> dict[Result, float]:
    """The distribution of function(noise) for independent uniform noise.

    The function must be constant between the breakpoints of each number it asks for; it is evaluated at the
    midpoint of every such interval, and only for the numbers that it really asks for.
    """
    found: dict[Result, float] = defaultdict(float)
    unfinished: list[tuple[dict[Key, float], float]] = [({}, 1.0)]
    while unfinished:
        known, weight = unfinished.pop()

        def noise(purpose: Purpose, position: int, known: dict[Key, float] = known) -> float:
            if (purpose, position) not in known:
                raise _Asked((purpose, position))
            return known[purpose, position]

        try:
            found[function(noise)] += weight
        except _Asked as asked:
            edges = sorted({0.0, 1.0, *(each for each in breakpoints(*asked.key) if 0 < each < 1)})
            for low, high in itertools.pairwise(edges):
                unfinished.append(({**known, asked.key: (low + high) / 2}, weight * (high - low)))
    return dict(found)


def cumulative(weights: torch.Tensor) -> list[float]:
    """The edges between the tokens of a draw from `weights` [vocab], which need not add up to 1."""
    edges: list[float] = (weights.double().cumsum(0) / weights.double().sum()).tolist()
    return edges


def joint(following: Next, length: int, start: Sequence[int] = ()) -> dict[tuple[int, ...], float]:
    """The joint distribution of the next `length` tokens of plain sampling."""
    found = {(): 1.0}
    for _ in range(length):
        found = {
            (*tokens, token): weight * share
            for tokens, weight in found.items()
            for token, share in enumerate(following((*start, *tokens)).tolist())
            if share > 0
        }
    return found


def largest_difference(one: dict[tuple[int, ...], float], other: dict[tuple[int, ...], float]) -> float:
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())
