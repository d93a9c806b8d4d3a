"""The three rules that decide which candidates stand. Pure functions of tensors and keyed random numbers.

Shapes: k candidates; `target` is [k + 1, vocab], row i being the target's distribution at candidate i, the
last row at the token behind them all. `noise` counts positions from the first candidate. Each rule leaves
the target's own distribution unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from app.engine.sampling import Noise, draw


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many candidates stand, and the target's own token behind them (None after the end of the text).

    `acceptance` holds the chance that each judged candidate had of standing.
    """

    num_accepted: int
    next_token: int | None
    acceptance: tuple[float, ...] = field(default=(), compare=False)

    def emitted(self, candidates: Sequence[int]) -> list[int]:
        """The tokens the round adds to the text."""
        behind = [] if self.next_token is None else [self.next_token]
        return [*candidates[: self.num_accepted], *behind]


def greedy_match(candidates: Sequence[int], logits: torch.Tensor) -> Outcome:
    """Temperature 0: a candidate stands while it is the target's first choice. `logits` [k + 1, vocab]."""
    choices: list[int] = logits.argmax(-1).tolist()
    accepted = _matching_prefix(candidates, choices)
    rejects = accepted < len(candidates)
    return Outcome(accepted, choices[accepted], (1.0,) * accepted + (0.0,) * rejects)


def sample_and_match(candidates: Sequence[int], target: torch.Tensor, noise: Noise) -> Outcome:
    """The target samples as if alone; a candidate stands while it agrees. `target` [k + 1, vocab].

    The text equals plain sampling with the same noise token for token, whoever drafted. The draft must not
    depend on the "target" noise.
    """
    choices: list[int] = []
    for position, row in enumerate(target):
        choices.append(draw(row, noise("target", position)))
        if position < len(candidates) and choices[position] != candidates[position]:
            break
    accepted = _matching_prefix(candidates, choices)
    judged = candidates[: accepted + 1]
    acceptance = tuple(float(target[position, each]) for position, each in enumerate(judged))
    return Outcome(accepted, choices[accepted], acceptance)


def speculative_sampling(
    candidates: Sequence[int], assistant: torch.Tensor | None, target: torch.Tensor, noise: Noise
) -> Outcome:
    """Speculative sampling, arXiv 2211.17192, algorithm 1.

    `assistant` [k, vocab] are the distributions q the candidates were drawn from, None when the draft was
    certain of itself (a lookup: q is 1 at the candidate). Accepts x with probability min(1, p(x) / q(x));
    the first rejected one is replaced by a draw from norm(max(0, p - q)).
    """
    acceptance: list[float] = []
    for position, candidate in enumerate(candidates):
        p = target[position]
        q = _one_hot(candidate, p) if assistant is None else assistant[position]
        acceptance.append(acceptance_probability(p, q, candidate))
        if noise("accept", position) >= acceptance[-1]:
            return Outcome(position, draw(residual(p, q), noise("residual", position)), tuple(acceptance))
    last = len(candidates)
    return Outcome(last, draw(target[last], noise("target", last)), tuple(acceptance))


def acceptance_probability(p: torch.Tensor, q: torch.Tensor, candidate: int) -> float:
    """min(1, p(x) / q(x)) for distributions p, q [vocab] and a candidate x drawn from q."""
    return min(1.0, float(p[candidate]) / float(q[candidate]))


def residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """What of p [vocab] the accepted candidates do not cover: max(0, p - q), not normalised.

    Where p and q agree up to rounding nothing is left, and p itself is the right distribution.
    """
    left = (p - q).clamp_min(0)
    return left if bool(left.any()) else p


def _one_hot(index: int, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like).index_fill_(0, torch.tensor(index, device=like.device), 1.0)


def _matching_prefix(candidates: Sequence[int], choices: Sequence[int]) -> int:
    """How many candidates there are before the first that differs from the target's choice."""
    matching = 0
    while matching < len(candidates) and candidates[matching] == choices[matching]:
        matching += 1
    return matching
