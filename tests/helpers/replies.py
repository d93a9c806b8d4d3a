"""Short ways to ask for a reply and to look at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from threading import Event
from typing import Any

from app.engine.cached_model import ModelPair
from app.engine.decoding import rounds
from app.records import DraftSettings, GenerationRequest, Message, Round, SamplingSettings

SAMPLING = {field.name for field in fields(SamplingSettings)}
DRAFT = {field.name for field in fields(DraftSettings)}


def request(prompt: str, max_new_tokens: int = 32, **settings: Any) -> GenerationRequest:
    """A request whose settings are named flatly: temperature, seed, drafter, rule, stop_strings, ..."""
    return GenerationRequest(
        messages=(Message("user", prompt),),
        sampling=SamplingSettings(**{key: value for key, value in settings.items() if key in SAMPLING}),
        draft=DraftSettings(**{key: value for key, value in settings.items() if key in DRAFT}),
        max_new_tokens=max_new_tokens,
        **{key: value for key, value in settings.items() if key not in SAMPLING | DRAFT},
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
