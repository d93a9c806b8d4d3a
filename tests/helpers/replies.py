"""Short ways to ask for a reply and to look at it."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Event
from typing import Any

from app.engine.cached_model import ModelPair
from app.engine.decoding import rounds
from app.records import DraftSettings, GenerationRequest, Message, Round, SamplingSettings

SAMPLING = frozenset({"temperature", "top_k", "top_p", "seed"})


def request(prompt: str, max_new_tokens: int = 32, **settings: Any) -> GenerationRequest:
    """A request whose settings are named flatly: temperature, seed, drafter, draft_length, rule, ..."""
    sampling = {key: value for key, value in settings.items() if key in SAMPLING}
    draft = {key: value for key, value in settings.items() if key not in SAMPLING}
    return GenerationRequest(
        (Message("user", prompt),), SamplingSettings(**sampling), DraftSettings(**draft), max_new_tokens
    )


def reply(pair: ModelPair, prompt: str, max_new_tokens: int = 32, **settings: Any) -> list[Round]:
    """All rounds of the reply to `prompt`."""
    return list(rounds(pair, request(prompt, max_new_tokens, **settings), Event()))


def emitted(finished: Iterable[Round]) -> list[int]:
    """The reply's token ids."""
    return [token.id for each in finished for token in each.emitted]


def candidates(each: Round) -> list[int]:
    return [token.id for token in each.candidates]


def count(finished: Iterable[Round], field: str) -> int:
    """The sum of a field such as num_judged over the rounds."""
    return sum(getattr(each, field) for each in finished)


def plain(pair: ModelPair, prompt: str, max_new_tokens: int = 32, **settings: Any) -> list[int]:
    """The token ids of plain generation, which must not have drafted anything."""
    finished = reply(pair, prompt, max_new_tokens, drafter="none", **settings)
    assert all(not each.candidates for each in finished)
    return emitted(finished)
