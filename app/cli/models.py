"""`tandem models`: search the Hub, judge a model or a pair before downloading, and keep what is on disk."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING, Any

from app.cli.arguments import consented, parse_model
from app.cli.say import interruptible
from app.cli.terminal import ProgressLine, visible
from app.errors import UserFacingError
from app.hub.cache import remove, repo_folder, stored_models
from app.hub.connection import Connection
from app.hub.download import download, forget, missing_bytes
from app.hub.entries import DownloadProgress, ModelEntry, Query, StoredModel, by_size
from app.hub.search import search
from app.records import STARTER_NAMES, ModelSpec, Progress, as_dict
from app.resources import data_folder
from app.words import count, size

if TYPE_CHECKING:
    from app.models.inspection import Inspection
    from app.models.memory import Estimate
    from app.models.pair import Verdict

REFUSED = 1


def models(options: Namespace) -> int:
    """Runs one of the commands on models; 1 where a pair cannot work together, else 0."""
    commands: dict[str, Callable[[Namespace], int]] = {
        "search": _search,
        "inspect": _inspect,
        "pair": _pair,
        "download": _download,
        "list": _list,
        "remove": _remove,
    }
    return commands[options.action](options)


def _search(options: Namespace) -> int:
    query = Query(
        text=options.text,
        writes_text=not options.all_tasks,
        sort="downloads" if options.sort == "size" else options.sort,
        licence=options.licence,
        format=options.format,
        gated=options.gated,
        smallest=options.smallest,
        largest=options.largest,
    )
    found = list(islice(search(Connection(), query), options.limit))
    _show(
        options, [as_dict(each) for each in found], _rows(by_size(found) if options.sort == "size" else found)
    )
    return 0


def _inspect(options: Namespace) -> int:
    from app.models.inspection import estimate_ways
    from app.models.memory import free_memory

    (found,) = _looked_at(options, [_spec(options.model, options)])
    ways = estimate_ways(found, options.context, free_memory())
    _show(options, _describe(found, ways), _about(found, ways, options.context))
    return 0


def _pair(options: Namespace) -> int:
    from app.models.inspection import estimate_pair, judge_pair
    from app.models.memory import free_memory

    specs = [_spec(text, options, options.quantization) for text in (options.target, options.assistant)]
    target, assistant = _looked_at(options, specs)
    verdict = judge_pair(target, assistant)
    room = estimate_pair(target, assistant, options.context, free_memory())
    described = {
        "target": _describe(target, {}),
        "assistant": _describe(assistant, {}),
        "verdict": as_dict(verdict),
        "memory": _measure(room) if room else None,
    }
    _show(options, described, _judgement(verdict, room))
    return REFUSED if verdict.kind == "refused" else 0


def _download(options: Namespace) -> int:
    connection = Connection()
    connection.require_network()
    (found,) = _looked_at(options, [_spec(options.model, options)])
    if found.details is None:
        raise UserFacingError(f"{options.model} is no repository of the Hub.", "", "Write it as owner/name.")
    plan = found.plan()
    if options.again:
        forget(connection, plan, options.again)
    fetched = missing_bytes(repo_folder(connection.folder, plan.repo) / "blobs", plan)
    line = ProgressLine(sys.stderr)
    with interruptible() as stop:
        for each in download(connection, plan, stop):
            line.show(_words(each))
    line.clear()
    told = {"repo": plan.repo, "commit": plan.commit, "bytes": plan.size, "fetched": fetched}
    _show(
        options, told, [f"{plan.repo} is here: {size(plan.size)}, of which {size(fetched)} were fetched now."]
    )
    return 0


def _list(options: Namespace) -> int:
    cache = Connection().folder
    found = stored_models(cache)
    rows = [as_dict(each) | {"folder": str(each.folder), "config": dict(each.config)} for each in found]
    _show(options, rows, _shelf(found) if found else [f"No models in {cache}."])
    return 0


def _remove(options: Namespace) -> int:
    freed = remove(Connection().folder, options.model)
    told = {"repo": options.model, "freed": freed}
    _show(options, told, [f"{options.model} is gone; {size(freed)} are free again."])
    return 0


def _spec(text: str, options: Namespace, weights: Any = "auto") -> ModelSpec:
    return consented(parse_model(text, weights), options)


def _looked_at(options: Namespace, specs: list[ModelSpec]) -> list[Inspection]:
    """Nothing but the answer goes to standard output, whatever a library thinks worth telling."""
    line = ProgressLine(sys.stderr)
    with interruptible() as stop, redirect_stdout(sys.stderr):
        line.show(Progress("Looking"))
        from app.models.inspection import inspect

        try:
            return [
                inspect(Connection(), spec, data_folder(), stop, line.show, name)
                for spec, name in zip(specs, STARTER_NAMES, strict=False)
            ]
        finally:
            line.clear()


def _show(options: Namespace, described: Any, lines: Any) -> None:
    if options.json:
        print(json.dumps(described))
    else:
        print(visible("\n".join(lines)))


def _rows(found: list[ModelEntry]) -> Iterator[str]:
    if not found:
        yield "Nothing was found. Search for less, or take a filter away."
        return
    width = max(len(each.repo) for each in found)
    yield f"{'':{width}}  {'weights':>8} {'on disk':>9} {'downloads':>11}  licence"
    for each in found:
        marks = [word for word, is_so in (("gated", each.gated), ("here", each.present)) if is_so]
        yield (
            f"{each.repo:{width}}  {count(each.parameters):>8} {size(each.bytes):>9} {each.downloads:>11,}  "
            f"{', '.join([each.licence or 'no licence told', *marks])}"
        )


def _about(found: Inspection, ways: dict[Any, Estimate], context: int) -> Iterator[str]:
    yield found.spec.source
    for name, value in _facts(found):
        yield f"  {name:<14} {value}"
    if ways:
        yield f"\nMemory at {context:,} tokens"
    for way, room in ways.items():
        need = room.needs[0]
        fits = "fits" if room.fits else "does not fit"
        yield f"  {way:<14} {size(need.total):>9}  {fits}: {size(room.room(need.device))} free on {need.device}"
    if found.files:
        yield f"\nA download fetches {size(found.size)}"
    for file in found.files:
        yield f"  {size(file.size):>9}  {file.name}"


def _facts(found: Inspection) -> Iterator[tuple[str, str]]:
    if found.refused or found.unknown:
        yield "Cannot be used" if found.refused else "Not known yet", found.refused or found.unknown
    if found.obstacle is not None:
        yield "Download", " ".join((found.obstacle.title, found.obstacle.remedy)).strip()
    if found.details is not None:
        entry = found.details.entry
        yield "Revision", f"{found.spec.revision} is {found.details.commit}"
        yield "Licence", (entry.licence or "none told") + (", gated" if entry.gated else "")
        yield "Here", "yes" if entry.present else "no"
    if found.seen is not None:
        names = found.seen.config.get("architectures") or [str(found.seen.config.get("model_type"))]
        yield "Architecture", ", ".join(map(str, names))
        yield "Weights", count(found.seen.parameters)
    if found.context:
        yield "Context", f"{found.context:,} tokens"


def _judgement(verdict: Verdict, room: Estimate | None) -> Iterator[str]:
    yield verdict.reason
    yield from verdict.notes
    if room is None:
        return
    for device in dict.fromkeys(each.device for each in room.needs):
        fits = "fit" if room.fits else "do not fit"
        taken, free = size(room.taken(device)), size(room.room(device))
        yield f"Together they take {taken} and {fits}: {free} are free on {device}."


def _shelf(found: list[StoredModel]) -> Iterator[str]:
    width = max(len(each.repo) for each in found)
    for each in found:
        state = f"incomplete: lacks {', '.join(each.missing[:3])}" if each.missing else "whole"
        names = ", ".join(each.refs) or "no branch"
        used = date.fromtimestamp(each.last_used).isoformat()
        yield f"{each.repo:{width}}  {size(each.bytes):>9}  {each.commit[:8]} ({names})  used {used}  {state}"


def _describe(found: Inspection, ways: dict[Any, Estimate]) -> dict[str, Any]:
    return {
        "source": found.spec.source,
        "commit": found.details.commit if found.details else None,
        "refs": dict(found.details.refs) if found.details else {},
        "entry": as_dict(found.details.entry) if found.details else None,
        "files": [as_dict(each) for each in found.files],
        "bytes": found.size,
        "parameters": found.seen.parameters if found.seen else None,
        "context": found.context,
        "refused": found.refused,
        "unknown": found.unknown,
        "obstacle": str(found.obstacle) if found.obstacle else None,
        "memory": {way: _measure(room) for way, room in ways.items()},
    }


def _measure(room: Estimate) -> dict[str, Any]:
    needs = [as_dict(each) | {"total": each.total} for each in room.needs]
    return {"needs": needs, "free": dict(room.free), "fits": room.fits}


def _words(progress: DownloadProgress) -> Progress:
    left = f"{size(progress.done)} of {size(progress.size)}"
    speed = f", {progress.bytes_per_second / 1e6:.1f} MB/s" if progress.bytes_per_second else ""
    return Progress(f"{progress.file or 'Done'}: {left}{speed}", progress.done / max(1, progress.size))
