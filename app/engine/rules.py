"""Which verification rule is in force: the person's choice where it is exact, refused with the reason elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import torch

from app.engine.drafters import Draft
from app.engine.sampling import Noise
from app.engine.verification import Outcome, greedy_match, sample_and_match, speculative_sampling
from app.errors import UserFacingError
from app.records import DraftSettings, Rule, SamplingSettings

Verify = Callable[[Draft, torch.Tensor, torch.Tensor, Noise], Outcome]
"""Draft, the target's scores and distributions [num_candidates + 1, vocab], noise -> outcome."""


def choose_rule(draft: DraftSettings, sampling: SamplingSettings) -> Rule:
    """Resolves "auto" and refuses what would change the text.

    "auto" matches greedily at temperature 0. Above it, a draft drawn from a model's distribution is judged by
    speculative sampling, which accepts the most of it; copies alone by sample-and-match.
    """
    if draft.rule == "auto":
        if sampling.greedy:
            return "match"
        return "sample-match" if draft.drafter in ("lookup", "none") else "speculative"
    if draft.rule == "match" and not sampling.greedy:
        raise UserFacingError(
            "Greedy match is exact at temperature 0 only.",
            "Above it the target samples, and matching its first choice would change the text.",
            "Choose sample-match or speculative, or set the temperature to 0.",
        )
    if draft.rule != "match" and sampling.greedy:
        raise UserFacingError(
            "At temperature 0 there is nothing to sample.",
            f"The rule {draft.rule} draws at random.",
            "Choose match or auto, or raise the temperature.",
        )
    return draft.rule


def make_verifier(rule: Rule) -> Verify:
    """The rule as a function. Greedy match looks at the scores: softmax could round two of them to one."""
    match rule:
        case "match":
            return lambda draft, scores, target, noise: greedy_match(draft.ids, scores)
        case "sample-match":
            return lambda draft, scores, target, noise: sample_and_match(draft.ids, target, noise)
        case "speculative":
            return lambda draft, scores, target, noise: speculative_sampling(
                draft.ids, draft.distributions if draft.drawn else None, target, noise
            )
        case "auto":
            raise ValueError("choose_rule() comes first")
        case _:
            assert_never(rule)
