"""The work behind the pages on models: plain functions for app.workers.tasks, which import torch only when run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, get_args

from app import records
from app.errors import Cancelled, UserFacingError
from app.hub.entries import Glance, ModelEntry, Plan, Query, StoredModel
from app.models.finder import Judged, Recommendation, recommend
from app.records import STARTER, STARTER_NAMES, ModelSpec, Weights
from app.workers.tasks import Tell

if TYPE_CHECKING:
    from app.hub.connection import Connection
    from app.models.inspection import Inspection
    from app.models.memory import Estimate, Remedy
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
    remedy: Remedy | None = None  # where there is no room
    cost: float | None = None  # of an assistant's pass over a target's


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
    connection: Connection,
    spec: ModelSpec,
    data: Path,
    context: int,
    held: Mapping[str, int],
    stop: Event,
    tell: Tell,
) -> Look:
    """`held` is what the loaded pair takes of each device, and would give back."""
    from app.hub.glance import read_card
    from app.models.imports import import_quietly

    import_quietly()
    from app.models.inspection import estimate_ways, inspect
    from app.models.memory import free_memory

    found = inspect(connection, spec, data, stop, tell)
    card = ""
    if found.details is not None:
        try:
            card = read_card(connection, found.details, data / "peeked", stop)
        except UserFacingError:  # the rest of the page stands without it
            card = ""
    return Look(found, estimate_ways(found, context, free_memory(held)), card)


def look_at_pair(
    connection: Connection,
    target: ModelSpec,
    assistant: ModelSpec | None,
    data: Path,
    context: int,
    held: Mapping[str, int],
    stop: Event,
    tell: Tell,
) -> PairLook:
    from app.models.imports import import_quietly

    import_quietly()
    from app.models import memory
    from app.models.inspection import estimate_pair, judge_pair, relative_cost

    first = _inspect_here_first(connection, target, data, stop, tell, STARTER_NAMES[0])
    second = verdict = cost = remedy = None
    if assistant is not None:
        second = _inspect_here_first(connection, assistant, data, stop, tell, STARTER_NAMES[1])
        verdict, cost = judge_pair(first, second), relative_cost(first, second)
    room = estimate_pair(first, second, context, memory.free_memory(held))
    if room is not None and not room.fits and first.seen is not None:
        helper = memory.Holding(second.seen, second.spec) if second and second.seen else None
        remedy = memory.remedy(memory.Holding(first.seen, first.spec), helper, context, room.free)
    return PairLook(first, second, verdict, room, remedy, cost)


def judge_candidates(
    connection: Connection,
    target: ModelSpec,
    candidates: Mapping[str, ModelSpec],
    data: Path,
    context: int,
    held: Mapping[str, int],
    stop: Event,
    tell: Tell,
) -> dict[str, Judged]:
    """Looks at what is on this disk, and tells each verdict as soon as it is known."""
    from app.models.imports import import_quietly

    import_quietly()
    from app.models.memory import free_memory
    from app.models.starter import is_unpacked

    offline, free = replace(connection, offline=True), free_memory(held)
    first = _inspect_here_first(connection, target, data, stop, _hush, STARTER_NAMES[0])
    judged: dict[str, Judged] = {}
    for key, spec in candidates.items():
        if stop.is_set():
            raise Cancelled
        if spec.source == STARTER and not is_unpacked(data / "models"):
            continue  # the engine does that when it is chosen, which takes a while
        try:
            second = _inspect_here_first(offline, spec, data, stop, _hush, STARTER_NAMES[1])
            judged[key] = _judge(first, second, context, free)
        except UserFacingError as error:
            judged[key] = Judged("refused", error.detail or error.title)
        tell(dict(judged))
    return judged


def _hush(progress: object) -> None:
    """Where the person waits for nothing, nothing is told."""


def _judge(target: Inspection, assistant: Inspection, context: int, free: Mapping[str, int]) -> Judged:
    from app.models.inspection import estimate_pair, judge_pair, relative_cost

    verdict = judge_pair(target, assistant)
    room = estimate_pair(target, assistant, context, free)
    return Judged(
        verdict.kind,
        re.sub(f"^{re.escape(target.name)} and {re.escape(assistant.name)}(:| have) ", "", verdict.reason),
        assistant.seen.parameters if assistant.seen else None,
        relative_cost(target, assistant),
        room.total if room else None,
        room.fits if room else None,
    )


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


def read_disk(connection: Connection, held: Mapping[str, int], stop: Event, tell: Tell) -> Disk:
    from app.hub.cache import stored_models
    from app.models.imports import import_quietly

    import_quietly()
    from app.models.memory import free_memory

    free = free_memory(held)
    return Disk(tuple(stored_models(connection.folder)), tuple(recommend(free)), max(free.values()))


def delete(connection: Connection, repo: str, stop: Event, tell: Tell) -> int:
    from app.hub.cache import remove

    return remove(connection.folder, repo)


def forget_file(connection: Connection, plan: Plan, name: str, stop: Event, tell: Tell) -> Plan:
    """Returns the plan, which fetches the file anew."""
    from app.hub.download import forget

    forget(connection, plan, name)
    return plan


def masked_token(stop: Event, tell: Tell) -> str:
    from app.hub import token

    return token.masked()


def keep_token(connection: Connection, given: str, stop: Event, tell: Tell) -> str:
    """Returns it masked."""
    from app.hub import token

    token.keep(connection, given)
    return token.masked()


def drop_token(stop: Event, tell: Tell) -> str:
    from app.hub import token

    token.drop()
    return token.masked()


def find_devices(stop: Event, tell: Tell) -> dict[str, dict[Weights, str]]:
    """For each device what cannot be held there, with the reason; those of this machine first."""
    from app.models.imports import import_quietly

    import_quietly()
    from app.models.weights import OFFLOAD, devices, why_not

    known = ["auto", *devices()]
    missing = [each for each in ("cuda", "mps") if not any(name.startswith(each) for name in known)]
    return {
        device: {way: why_not(way, device) or "" for way in get_args(records.Weights)}
        for device in [*known, OFFLOAD, *missing]
    }
