"""The work behind the pages on models: plain functions for app.workers.tasks, which import torch only when run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, get_args

from app import records
from app.errors import UserFacingError
from app.hub.entries import Glance, ModelEntry, Query, StoredModel
from app.models.finder import Recommendation, recommend
from app.records import ModelSpec, Weights
from app.workers.tasks import Tell

if TYPE_CHECKING:
    from app.hub.connection import Connection
    from app.models.inspection import Inspection
    from app.models.memory import Estimate
    from app.models.pair import Verdict

PORTION = 50  # results at a time


@dataclass(frozen=True, slots=True)
class Portion:
    """Some results, and where more come from."""

    entries: tuple[ModelEntry, ...]
    rest: Iterator[ModelEntry]
    more: bool


@dataclass(frozen=True, slots=True)
class Look:
    """A model before its download, what it takes in each of several ways, and its card."""

    found: Inspection
    ways: dict[Weights, Estimate]
    card: str


@dataclass(frozen=True, slots=True)
class PairLook:
    """Two models before they are loaded; the assistant may be absent."""

    target: Inspection
    assistant: Inspection | None
    verdict: Verdict | None
    room: Estimate | None
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Disk:
    """What is on this disk, and what would be good to have."""

    stored: tuple[StoredModel, ...]
    advice: tuple[Recommendation, ...]
    free: int  # bytes on the device that models go to


def begin_search(connection: Connection, query: Query, stop: Event, tell: Tell) -> Portion:
    from app.hub.search import search

    return next_portion(search(connection, query), stop, tell)


def next_portion(results: Iterator[ModelEntry], stop: Event, tell: Tell) -> Portion:
    entries = tuple(islice(results, PORTION))
    return Portion(entries, results, len(entries) == PORTION)


def glance_at(connection: Connection, repo: str, data: Path, stop: Event, tell: Tell) -> Glance:
    from app.hub.glance import glance

    return glance(connection, repo, data / "peeked", stop)


def look_at(
    connection: Connection, spec: ModelSpec, data: Path, context: int, stop: Event, tell: Tell
) -> Look:
    from app.hub.glance import read_card
    from app.models.imports import import_quietly

    import_quietly()
    from app.models.inspection import estimate_ways, inspect

    found = inspect(connection, spec, data, stop, tell)
    card = ""
    if found.details is not None:
        try:
            card = read_card(connection, found.details, data / "peeked", stop)
        except UserFacingError:  # the rest of the page stands without it
            card = ""
    return Look(found, estimate_ways(found, context), card)


def look_at_pair(
    connection: Connection,
    target: ModelSpec,
    assistant: ModelSpec | None,
    data: Path,
    context: int,
    stop: Event,
    tell: Tell,
) -> PairLook:
    from app.models.imports import import_quietly

    import_quietly()
    from app.models import memory
    from app.models.inspection import estimate_pair, judge_pair
    from app.models.starter import ASSISTANT_NAME, TARGET_NAME

    first = _inspect_here_first(connection, target, data, stop, tell, TARGET_NAME)
    second = (
        None
        if assistant is None
        else _inspect_here_first(connection, assistant, data, stop, tell, ASSISTANT_NAME)
    )
    verdict = judge_pair(first, second) if second is not None else None
    room = estimate_pair(first, second, context)
    remedy = ""
    if room is not None and not room.fits and first.seen is not None:
        helper = memory.Holding(second.seen, second.spec) if second and second.seen else None
        remedy = memory.remedy(memory.Holding(first.seen, first.spec), helper, context, room.free)
    return PairLook(first, second, verdict, room, remedy)


def _inspect_here_first(
    connection: Connection, spec: ModelSpec, data: Path, stop: Event, tell: Tell, name: str
) -> Inspection:
    """What is whole on this disk is not asked of the Hub: the picker works without a network."""
    from app.hub.search import named_repo
    from app.models.inspection import inspect

    try:
        return inspect(replace(connection, offline=True), spec, data, stop, tell, name)
    except UserFacingError:
        if connection.is_offline or not named_repo(spec.source):
            raise
    return inspect(connection, spec, data, stop, tell, name)


def read_disk(connection: Connection, stop: Event, tell: Tell) -> Disk:
    from app.hub.cache import stored_models
    from app.models.imports import import_quietly

    import_quietly()
    from app.models.memory import free_memory

    free = free_memory()
    return Disk(tuple(stored_models(connection.folder)), tuple(recommend(free)), max(free.values()))


def delete(connection: Connection, repo: str, stop: Event, tell: Tell) -> int:
    from app.hub.cache import remove

    return remove(connection.folder, repo)


def find_devices(stop: Event, tell: Tell) -> dict[str, dict[Weights, str]]:
    """For each device what cannot be held there, with the reason; those of this machine first."""
    from app.models.imports import import_quietly

    import_quietly()
    from app.models.weights import devices, why_not

    known = ["auto", *devices()]
    missing = [each for each in ("cuda", "mps") if not any(name.startswith(each) for name in known)]
    return {
        device: {way: why_not(way, device) or "" for way in get_args(records.Weights)}
        for device in [*known, *missing]
    }
