"""Where a reply ends: at an end-of-sequence token, at the token budget, or at the model's context length."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app.engine.verification import Outcome
from app.errors import UserFacingError
from app.records import FinishReason


class Ending:
    """Counts the reply's tokens. Nothing behind an end-of-sequence token is emitted or counted."""

    def __init__(
        self, eos_ids: Collection[int], prompt: int, max_new_tokens: int, context_length: int
    ) -> None:
        if prompt == 0:
            raise UserFacingError(
                "There is nothing to continue.",
                "The message is empty, and this model has no chat template.",
                "Write how the text begins.",
            )
        if prompt >= context_length:
            raise UserFacingError(
                "The conversation is longer than the model can read.",
                f"It has {prompt:,} tokens; the model's context holds {context_length:,}.",
                "Start a new chat, or shorten the message.",
            )
        room = context_length - prompt
        self.remaining = min(max_new_tokens, room)
        self._at_limit: FinishReason = "length" if max_new_tokens <= room else "context"
        self._eos_ids = eos_ids

    def cut(self, candidates: Sequence[int], outcome: Outcome) -> Outcome:
        """The outcome up to and with the first end-of-sequence token among the accepted candidates."""
        for position, candidate in enumerate(candidates[: outcome.num_accepted]):
            if candidate in self._eos_ids:
                return Outcome(position + 1, None)
        return outcome

    def count(self, emitted: Sequence[int]) -> FinishReason | None:
        """Counts a round's tokens and tells why the reply ends with them, None if it goes on."""
        self.remaining -= len(emitted)
        if emitted[-1] in self._eos_ids:
            return "eos"
        return self._at_limit if self.remaining <= 0 else None
