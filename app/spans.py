"""A round as a run of marked spans: what window and terminal show for each token, ghosts included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.records import Kind, Round, Token

_STAND_INS = {ord("\r"): None, ord("\n"): "↵", ord("\t"): "⇥", ord("\N{REPLACEMENT CHARACTER}"): "▯"}


@dataclass(frozen=True, slots=True)
class Span:
    """One token as it stands in the text: `text` is what is shown, a ghost's stand-in included."""

    kind: Kind
    text: str
    token: Token
    round: Round
    position: int  # in the reply for emitted tokens; for a ghost, the place it was drafted for

    @property
    def judged(self) -> bool:
        """False for the candidates behind the first rejected one: the target never looked at them."""
        return self.kind != "rejected" or self.token.target_probability is not None


def spans(this_round: Round) -> Iterator[Span]:
    """The round in reading order: accepted candidates, ghosts of the rejected ones, the target's own token."""
    for offset in range(this_round.num_accepted):
        token, piece = this_round.candidates[offset], this_round.pieces[offset]
        yield Span("accepted", piece, token, this_round, this_round.position + offset)
    if this_round.next_token is None or this_round.next_kind is None:
        return  # the reply ended inside the draft: what is left of it is nobody's error
    behind = this_round.position + this_round.num_accepted
    for offset, token in enumerate(this_round.rejected):
        yield Span("rejected", ghost_text(token), token, this_round, behind + offset)
    yield Span(this_round.next_kind, this_round.pieces[-1], this_round.next_token, this_round, behind)


def ghost_text(token: Token) -> str:
    """A rejected token kept on its line, visible even when it is a line feed or half a character."""
    return token.text.translate(_STAND_INS) or "▯"
