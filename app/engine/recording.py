"""Writes down what a round did, from the tensors the rule itself saw: never from a second run."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Literal

import torch

from app.engine.drafters import Draft
from app.engine.ending import Cut
from app.engine.text import ChatText
from app.engine.verification import Outcome
from app.records import Alternative, Alternatives, Round, Token

NUM_ALTERNATIVES = 5
BLOCK = 64  # divides most vocabularies
SMALLEST = 1e-30  # stands in for a probability of 0, whose share of an entropy is 0

Likeliest = tuple[tuple[Alternative, ...], float]
"""A model's likeliest tokens at one position, and the entropy of its choice."""


class Recorder:
    """Builds the rounds of one reply; with `alternatives`, also what else both models would have written."""

    def __init__(self, text: ChatText, alternatives: bool, variant: int) -> None:
        self._text = text
        self._alternatives = alternatives
        self._variant = variant
        self._index = 0
        self._position = 0

    def record(
        self,
        draft: Draft,
        target: torch.Tensor,  # [num_candidates + 1, vocab]
        cut: Cut,
        *,
        draft_length: int,
        # Seconds of draft and forward pass; when judging began and ended.
        times: tuple[float, float, float, float],
        prefill_seconds: float,
    ) -> Round:
        outcome = cut.outcome
        draft_seconds, forward_seconds, began, judged = times
        candidates = self._candidates(draft, target, outcome)
        alternatives = self._look_around(draft, target, len(cut.emitted)) if self._alternatives else ()
        this_round = Round(
            index=self._index,
            position=self._position,
            draft_length=draft_length,
            candidates=candidates,
            num_judged=len(outcome.acceptance),
            num_accepted=outcome.num_accepted,
            next_token=self._next_token(draft, target, outcome),
            next_kind=_next_kind(draft, outcome),
            pieces=cut.pieces,
            draft_seconds=draft_seconds,
            verify_seconds=forward_seconds + judged - began,
            seconds=draft_seconds + forward_seconds + perf_counter() - began,
            prefill_seconds=prefill_seconds,
            finish_reason=cut.finish_reason,
            variant=self._variant,
            alternatives=alternatives,
        )
        self._index += 1
        self._position += len(cut.emitted)
        return this_round

    def _candidates(self, draft: Draft, target: torch.Tensor, outcome: Outcome) -> tuple[Token, ...]:
        """The draft with what both models thought of it; the target only where it judged."""
        if not draft.ids:
            return ()
        ids = torch.tensor(draft.ids, device=target.device)[:, None]  # [num_candidates, 1]
        num_judged = len(outcome.acceptance)
        acceptance = _filled(outcome.acceptance, len(ids))
        p = _filled(target[:num_judged].gather(1, ids[:num_judged]).flatten().tolist(), len(ids))
        q: Sequence[float | None] = [None] * len(ids)
        if draft.distributions is not None:
            q = draft.distributions.gather(1, ids.to(draft.distributions.device)).flatten().tolist()
        return tuple(
            Token(token, self._text.name(token), p[i], q[i], draft.source, acceptance[i])
            for i, token in enumerate(draft.ids)
        )

    def _next_token(self, draft: Draft, target: torch.Tensor, outcome: Outcome) -> Token | None:
        if outcome.next_token is None:
            return None
        row, token = outcome.num_accepted, outcome.next_token
        own = None
        if draft.distributions is not None and row < len(draft.ids):
            own = float(draft.distributions[row, token])
        return Token(token, self._text.name(token), float(target[row, token]), own)

    def _look_around(self, draft: Draft, target: torch.Tensor, num_emitted: int) -> tuple[Alternatives, ...]:
        """What both models would have written at each emitted token; the assistant where it drafted."""
        rows: Sequence[Likeliest | None] = [None] * num_emitted
        if draft.distributions is not None:
            drafted = self._likeliest(draft.distributions[:num_emitted])
            rows = [*drafted, *rows[len(drafted) :]]
        return tuple(
            Alternatives(top, own[0] if own else (), entropy, own[1] if own else None)
            for (top, entropy), own in zip(self._likeliest(target[:num_emitted]), rows, strict=True)
        )

    def _likeliest(self, distributions: torch.Tensor) -> list[Likeliest]:
        """Of each row of [rows, vocab]: the likeliest tokens, best first, and the entropy in nats."""
        probabilities, ids = largest(distributions, min(NUM_ALTERNATIVES, distributions.shape[-1]))
        entropies: list[float] = entropy(distributions).tolist()
        rows = zip(ids.tolist(), probabilities.tolist(), entropies, strict=True)
        return [
            (
                tuple(
                    Alternative(token, self._text.name(token), p)
                    for token, p in zip(tokens, shares, strict=True)
                    if p > 0
                ),
                entropy,
            )
            for tokens, shares, entropy in rows
        ]


def largest(values: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest of each row of [rows, vocab] and their places, each [rows, count], largest first.

    They are in the `count` blocks whose maxima are the largest: to look there alone is four times as quick as
    to look everywhere (measured at 49,152).
    """
    rows, vocab = values.shape
    if vocab % BLOCK or vocab < count * BLOCK:
        everywhere = values.topk(count)
        return everywhere.values, everywhere.indices
    blocks = values.view(rows, -1, BLOCK)
    chosen = blocks.amax(-1).topk(count).indices  # [rows, count]
    found = blocks.gather(1, chosen[..., None].expand(-1, -1, BLOCK)).flatten(1).topk(count)
    places = chosen.gather(1, found.indices // BLOCK) * BLOCK + found.indices % BLOCK
    return found.values, places


def entropy(distributions: torch.Tensor) -> torch.Tensor:
    """Of each row of [rows, vocab], in nats; half the time of torch.special.entr()."""
    entropies: torch.Tensor = -torch.linalg.vecdot(distributions, distributions.clamp_min(SMALLEST).log_())
    return entropies


def _filled(known: Sequence[float], length: int) -> list[float | None]:
    """`known` with None behind it, up to `length`."""
    return [*known, *[None] * (length - len(known))]


def _next_kind(draft: Draft, outcome: Outcome) -> Literal["recovered", "bonus", "plain"] | None:
    if outcome.next_token is None:
        return None
    if not draft.ids:
        return "plain"
    return "bonus" if outcome.num_accepted == len(draft.ids) else "recovered"
