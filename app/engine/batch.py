"""Several sequences go through one model together."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import torch

from app.engine.cached_model import CachedModel
from app.engine.drafters import Draft, Drafting


def spread(model: CachedModel, count: int) -> list[CachedModel]:
    """`count` sequences of one model, each having read what `model` has; a single one is the model itself."""
    return [model] if count == 1 else [model.fork() for _ in range(count)]


def forward_together(
    models: Sequence[CachedModel], feeds: Sequence[Sequence[int]], keep: int = 0
) -> list[torch.Tensor]:
    """What `model.forward(ids, keep)` gives for each sequence, in as few passes as the models allow."""
    return [model.forward(ids, keep) for model, ids in zip(models, feeds, strict=True)]


def draft_together(drafters: Sequence[tuple[CachedModel | None, Drafting]], stop: Event) -> list[Draft]:
    """Finishes the drafts of several sequences, whose models read together; empty ones once `stop` is set."""
    drafts = [Draft()] * len(drafters)
    asking: dict[int, Sequence[int]] = {}  # place -> what its model shall read
    for place, (_, drafting) in enumerate(drafters):
        _advance(drafting, None, place, drafts, asking)
    while asking and not stop.is_set():
        places, feeds = list(asking), list(asking.values())
        models = [model for place in places if (model := drafters[place][0]) is not None]
        asking.clear()
        for place, logits in zip(places, forward_together(models, feeds, keep=1), strict=True):
            _advance(drafters[place][1], logits[-1], place, drafts, asking)
    return drafts


def _advance(
    drafting: Drafting,
    logits: torch.Tensor | None,
    place: int,
    drafts: list[Draft],
    asking: dict[int, Sequence[int]],
) -> None:
    """Takes a draft one step on: to what it asks for next, or to its end."""
    try:
        asking[place] = next(drafting) if logits is None else drafting.send(logits)
    except StopIteration as done:
        drafts[place] = done.value
