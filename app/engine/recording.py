"""Writes down what a round did, from the tensors the rule itself saw: never from a second run."""

from __future__ import annotations

from time import perf_counter
from typing import Literal

import torch

from app.engine.drafters import Draft
from app.engine.text import ChatText, Detokeniser
from app.engine.verification import Outcome
from app.records import FinishReason, Round, Token


class Recorder:
    """Builds the rounds of one reply."""

    def __init__(self, text: ChatText) -> None:
        self._text = text
        self._detokeniser = Detokeniser(text)
        self._index = 0
        self._position = 0

    def record(
        self,
        draft: Draft,
        target: torch.Tensor,  # [num_candidates + 1, vocab]
        outcome: Outcome,
        *,
        draft_length: int,
        times: tuple[float, float, float],  # when the round began, had drafted, had verified
        prefill_seconds: float,
        finish_reason: FinishReason | None,
    ) -> Round:
        rejects = outcome.next_token is not None and outcome.num_accepted < len(draft.ids)
        num_judged = outcome.num_accepted + rejects
        emitted = outcome.emitted(draft.ids)
        began, drafted, verified = times
        this_round = Round(
            index=self._index,
            position=self._position,
            draft_length=draft_length,
            candidates=self._candidates(draft, target, num_judged),
            num_judged=num_judged,
            num_accepted=outcome.num_accepted,
            next_token=self._next_token(draft, target, outcome),
            next_kind=_next_kind(draft, outcome),
            pieces=tuple(self._detokeniser.push(token) for token in emitted),
            draft_seconds=drafted - began,
            verify_seconds=verified - drafted,
            seconds=perf_counter() - began,
            prefill_seconds=prefill_seconds,
            finish_reason=finish_reason,
        )
        self._index += 1
        self._position += len(emitted)
        return this_round

    def _candidates(self, draft: Draft, target: torch.Tensor, num_judged: int) -> tuple[Token, ...]:
        """The draft with the probabilities both models gave it; the target's only where it was judged."""
        if not draft.ids:
            return ()
        ids = torch.tensor(draft.ids, device=target.device)[:, None]  # [num_candidates, 1]
        judged: list[float] = target[:num_judged].gather(1, ids[:num_judged]).flatten().tolist()
        own: list[float | None] = [None] * len(draft.ids)
        if draft.distributions is not None:
            own = draft.distributions.gather(1, ids.to(draft.distributions.device)).flatten().tolist()
        target_probabilities = [*judged, *[None] * (len(draft.ids) - num_judged)]
        return tuple(
            Token(token, self._text.name(token), p, q)
            for token, p, q in zip(draft.ids, target_probabilities, own, strict=True)
        )

    def _next_token(self, draft: Draft, target: torch.Tensor, outcome: Outcome) -> Token | None:
        if outcome.next_token is None:
            return None
        row, token = outcome.num_accepted, outcome.next_token
        own = None
        if draft.distributions is not None and row < len(draft.ids):
            own = float(draft.distributions[row, token])
        return Token(token, self._text.name(token), float(target[row, token]), own)


def _next_kind(draft: Draft, outcome: Outcome) -> Literal["recovered", "bonus", "plain"] | None:
    if outcome.next_token is None:
        return None
    if not draft.ids:
        return "plain"
    return "bonus" if outcome.num_accepted == len(draft.ids) else "recovered"
