"""Where a reply ends: end-of-sequence token, stop string, token budget, or the model's context length."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from app.engine.text import ChatText, Detokeniser, StopStrings
from app.engine.verification import Outcome
from app.errors import UserFacingError
from app.records import FinishReason


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left of an outcome: the tokens up to the reply's end, the text of each, and the end's reason."""

    outcome: Outcome
    emitted: tuple[int, ...]
    pieces: tuple[str, ...]
    finish_reason: FinishReason | None


class Ending:
    """Counts a reply's tokens and reads its text. Nothing behind its end is emitted or counted.

    Raises UserFacingError when there is nothing to continue, or no room for a reply to `num_prompt` tokens.
    """

    def __init__(
        self,
        text: ChatText,
        eos_ids: Collection[int],
        stop_strings: Sequence[str],
        num_prompt: int,
        max_new_tokens: int,
        context_length: int,
    ) -> None:
        if num_prompt == 0:
            raise UserFacingError(
                "There is nothing to continue.",
                "The message is empty, and this model has no chat template.",
                "Write how the text begins.",
            )
        if num_prompt >= context_length:
            raise UserFacingError(
                "The conversation is longer than the model can read.",
                f"It has {num_prompt:,} tokens; the model's context holds {context_length:,}.",
                "Start a new chat, or shorten the message.",
            )
        room = context_length - num_prompt
        self.remaining = min(max_new_tokens, room)
        self._at_limit: FinishReason = "length" if max_new_tokens <= room else "context"
        self._eos_ids = eos_ids
        self._detokeniser = Detokeniser(text)
        self._stop_strings = StopStrings(stop_strings)

    def cut(self, candidates: Sequence[int], outcome: Outcome) -> Cut:
        """Takes the emitted tokens one by one, up to and with the one that ends the reply.

        The token that completes a stop string is part of the reply, its text from there on is not.
        """
        pieces: list[str] = []
        finish_reason: FinishReason | None = None
        emitted = outcome.emitted(candidates)
        for token in emitted:
            pieces.append(self._stop_strings.push(self._detokeniser.push(token)))
            finish_reason = self._reason(token)
            if finish_reason is not None:
                break
        if finish_reason is not None and finish_reason != "stop-string":
            pieces[-1] += self._stop_strings.flush()
        if len(pieces) <= outcome.num_accepted:
            outcome = Outcome(len(pieces), None, outcome.acceptance[: len(pieces)])
        return Cut(outcome, tuple(emitted[: len(pieces)]), tuple(pieces), finish_reason)

    def _reason(self, token: int) -> FinishReason | None:
        self.remaining -= 1
        if token in self._eos_ids:
            return "eos"
        if self._stop_strings.found:
            return "stop-string"
        return self._at_limit if self.remaining <= 0 else None
