"""A model looked at before it is downloaded: which files it needs, what it is, and whether it fits a pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from app.errors import UserFacingError
from app.hub.connection import Connection
from app.hub.download import make_plan, peek
from app.hub.entries import ModelDetails, Plan, RepoFile
from app.hub.files import LARGE_PEEK, needed_files, small_files
from app.hub.glance import context_length
from app.hub.search import details, named_repo
from app.models import memory
from app.models.memory import Estimate, Holding
from app.models.pair import Checkpoint, Verdict, estimate_parameters, judge, refusal
from app.models.sources import Tell, explained, find, load_tokenizer, read_config
from app.records import ModelSpec, Progress, Weights

WAYS: tuple[Weights, ...] = ("auto", "float32", "bfloat16", "int8", "nf4")
"""The weights that a model's need is told for; float16 and fp4 take as much as their siblings."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of a model without its weights.

    `seen` is None where the model cannot write text, for which `refused` has the reason, or where that is not
    known before the download. `obstacle` forbids the download as it is asked for.
    """

    spec: ModelSpec
    details: ModelDetails | None  # None for what is not asked of the Hub
    files: tuple[RepoFile, ...]
    seen: Checkpoint | None
    refused: str = ""
    obstacle: UserFacingError | None = None

    @property
    def name(self) -> str:
        return Path(self.spec.source).name if self.seen is None else self.seen.name

    @property
    def unknown(self) -> str:
        """Why nothing can be said of it yet; empty where something can."""
        if self.seen is not None or self.refused:
            return ""
        if self.obstacle is not None:
            return self.obstacle.title
        return f"{self.name} keeps its configuration inside its weights and is judged once they are here."

    @property
    def size(self) -> int:
        """Bytes of the files that a download fetches."""
        return sum(each.size for each in self.files)

    @property
    def context(self) -> int | None:
        if self.seen is not None:
            return context_length(self.seen.config)
        return self.details.entry.context if self.details else None

    def plan(self) -> Plan:
        """What to download. Raises UserFacingError where something forbids it, or where nothing is to come."""
        if self.obstacle is not None:
            raise self.obstacle
        if self.details is None:
            raise UserFacingError(f"{self.name} is on this disk already.")
        return make_plan(self.details, self.spec.revision, self.files)


def inspect(
    connection: Connection, spec: ModelSpec, data: Path, stop: Event, tell: Tell, starter_name: str = ""
) -> Inspection:
    """Asks the Hub about a repository, and fetches its configuration and tokenizer once for each commit.

    `data` is the program's folder. Offline, and for what is no repository, the files on this disk are looked
    at. Raises UserFacingError when it cannot be found, Cancelled when `stop` is set.
    """
    if named_repo(spec.source) != spec.source or connection.is_offline:
        source = find(spec, data / "models", stop, tell, starter_name, connection.folder)
        return Inspection(spec, None, (), source.seen)
    found = details(connection, spec.source, spec.revision)
    files, obstacle = _choose(found, spec)
    seen, refused = None, ""
    try:
        seen, refused = _look(connection, found, spec, data / "peeked", stop, tell)
    except UserFacingError as error:  # a gated model's files are listed, and not given
        obstacle = obstacle or error
    return Inspection(spec, found, files, seen, refused, obstacle)


def pinned(found: Inspection) -> ModelSpec:
    """The model as it is recorded: by the commit that was looked at."""
    return found.spec if found.details is None else replace(found.spec, revision=found.details.commit)


def relative_cost(target: Inspection, assistant: Inspection) -> float | None:
    """Time of an assistant's pass over that of its target's, by the number of weights; None where unknown."""
    counts = [
        each.seen and (each.seen.parameters or estimate_parameters(each.seen.config))
        for each in (assistant, target)
    ]
    return counts[0] / counts[1] if counts[0] and counts[1] else None


def judge_pair(target: Inspection, assistant: Inspection) -> Verdict:
    """The verdict on two models of which perhaps only the small files are here."""
    for each in (target, assistant):
        if each.refused:
            return Verdict("refused", each.refused)
    if target.seen is None or assistant.seen is None:
        return Verdict("unknown", target.unknown or assistant.unknown)
    with explained(f"{target.name} with {assistant.name}"):
        return judge(target.seen, assistant.seen)


def estimate_pair(
    target: Inspection, assistant: Inspection | None, context: int, free: Mapping[str, int]
) -> Estimate | None:
    """Both models as their specs say, beside what is `free`; None where one of them is not known."""
    if target.seen is None or (assistant is not None and assistant.seen is None):
        return None
    helper = Holding(assistant.seen, assistant.spec) if assistant and assistant.seen else None
    # The starter's two models bear one name, so that the name alone does not say it.
    shared = (
        assistant is not None
        and assistant.seen is not None
        and assistant.seen.config == target.seen.config
        and pinned(assistant) == pinned(target)
    )
    return memory.estimate(Holding(target.seen, target.spec), helper, context, free, shared)


def estimate_ways(found: Inspection, context: int, free: Mapping[str, int]) -> dict[Weights, Estimate]:
    """What the model takes alone, for each of WAYS; nothing where it is not known."""
    if found.seen is None:
        return {}
    return {
        way: memory.estimate(Holding(found.seen, replace(found.spec, weights=way)), None, context, free)
        for way in WAYS
    }


def _choose(found: ModelDetails, spec: ModelSpec) -> tuple[tuple[RepoFile, ...], UserFacingError | None]:
    try:
        return needed_files(found.files, spec.file, spec.own_code, spec.pickle), None
    except UserFacingError as error:
        return (), error


def _look(
    connection: Connection, found: ModelDetails, spec: ModelSpec, peeked: Path, stop: Event, tell: Tell
) -> tuple[Checkpoint | None, str]:
    name = Path(spec.source).name
    small = small_files(found.files, spec.own_code)
    if not any(each.name == "config.json" for each in small):
        return None, ""
    size = sum(each.size for each in small)
    large = f" ({size / 1e6:.0f} MB)" if size > LARGE_PEEK else ""
    tell(Progress(f"Reading configuration and tokenizer of {name}{large}"))
    folder = peek(connection, found, small, peeked, stop)
    with explained(name):
        config = read_config(folder)
        if (refused := refusal(config, name, spec.own_code)) is not None:
            return None, refused
        tokenizer = load_tokenizer(folder, own_code=spec.own_code)
    return Checkpoint(name, config, tokenizer, found.entry.parameters, spec.own_code), ""
