"""The queue of downloads: one at a time, kept over restarts, paused, tried again and taken off."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QObject, Signal, Slot

from app.errors import UserFacingError
from app.hub.entries import DownloadProgress, Plan, RepoFile
from app.workers.tasks import Task, Tasks, Tell

if TYPE_CHECKING:
    from app.hub.connection import Connection

State = Literal["waiting", "running", "paused", "failed", "done"]
SECONDS_PER_UPDATE = 0.25

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Item:
    """One download in the queue; `error` says why it failed."""

    plan: Plan
    state: State = "waiting"
    progress: DownloadProgress | None = None
    error: UserFacingError | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.plan.repo, self.plan.commit


class DownloadQueue(QObject):
    """Owns one thread. What was waiting or running when the program ended goes on at the next start."""

    changed = Signal(object)  # tuple[Item, ...]
    arrived = Signal(str)  # a repository that is whole now

    def __init__(self, path: Path, connect: Callable[[], Connection], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._connect = connect
        self._tasks = Tasks(1, self)
        self._task: Task | None = None
        self.items: tuple[Item, ...] = tuple(_read(path))

    def add(self, plan: Plan) -> None:
        """Queues a download; one that is queued already is gone on with."""
        known = self._find((plan.repo, plan.commit))
        if known is None:
            self._set((*self.items, Item(plan)))
        elif known.state in ("paused", "failed", "done"):
            self._change(replace(known, plan=plan, state="waiting", progress=None, error=None))
        self._go_on()

    @Slot()
    def start(self) -> None:
        """Goes on with what an earlier run of the program has left."""
        self._go_on()

    @Slot(object)
    def pause(self, key: tuple[str, str]) -> None:
        self._halt(key, "paused")

    @Slot(object)
    def resume(self, key: tuple[str, str]) -> None:
        """Also after a failure."""
        item = self._find(key)
        if item is not None and item.state in ("paused", "failed"):
            self._change(replace(item, state="waiting", error=None))
            self._go_on()

    @Slot(object)
    def cancel(self, key: tuple[str, str]) -> None:
        """Takes it off the queue, with what has arrived of files that are not whole."""
        item = self._find(key)
        if item is None:
            return
        self._halt(key, "paused")
        self._set(tuple(each for each in self.items if each.key != key))
        if item.state != "done":
            self._tasks.start(partial(_drop_parts, self._connect(), item.plan))
        self._go_on()

    def shut_down(self) -> None:
        """Ends the transfer; its parts stay, and the file says that it was running."""
        self._save()
        self._tasks.shut_down()

    def _halt(self, key: tuple[str, str], state: State) -> None:
        item = self._find(key)
        if item is None or item.state not in ("waiting", "running"):
            return
        if item.state == "running" and self._task is not None:
            self._task.cancel()
            self._task = None
        self._change(replace(item, state=state))
        self._go_on()

    def _go_on(self) -> None:
        if self._task is not None:
            return
        item = next((each for each in self.items if each.state == "waiting"), None)
        if item is None:
            return
        self._change(replace(item, state="running"))
        self._task = self._tasks.start(partial(_fetch, self._connect(), item.plan))
        self._task.progressed.connect(self._show)
        self._task.done.connect(self._finish)
        self._task.failed.connect(self._fail)

    @Slot(object)
    def _show(self, progress: DownloadProgress) -> None:
        item = self._running()
        if item is not None:
            self._change(replace(item, progress=progress), keep=False)

    @Slot(object)
    def _finish(self, _: object) -> None:
        item, self._task = self._running(), None
        if item is not None:
            self._change(replace(item, state="done"))
            self.arrived.emit(item.plan.repo)
        self._go_on()

    @Slot(object)
    def _fail(self, error: UserFacingError) -> None:
        item, self._task = self._running(), None
        if item is not None:
            log.warning("download of %s failed: %s", item.plan.repo, error.title)
            self._change(replace(item, state="failed", error=error))
        self._go_on()

    def _running(self) -> Item | None:
        return next((each for each in self.items if each.state == "running"), None)

    def _find(self, key: tuple[str, str]) -> Item | None:
        return next((each for each in self.items if each.key == key), None)

    def _change(self, item: Item, keep: bool = True) -> None:
        self._set(tuple(item if each.key == item.key else each for each in self.items), keep)

    def _set(self, items: tuple[Item, ...], keep: bool = True) -> None:
        self.items = items
        if keep:
            self._save()
        self.changed.emit(items)

    def _save(self) -> None:
        kept = [
            {"plan": asdict(each.plan), "paused": each.state in ("paused", "failed")}
            for each in self.items
            if each.state != "done"
        ]
        unfinished = self._path.with_suffix(".new")
        try:
            unfinished.write_text(json.dumps(kept, indent=1), encoding="utf-8")
            unfinished.replace(self._path)
        except OSError as error:
            log.warning("the queue of downloads is not kept: %s", error)


def _fetch(connection: Connection, plan: Plan, stop: Event, tell: Tell) -> None:
    from app.hub.download import download

    told = 0.0
    for each in download(connection, plan, stop):
        if monotonic() - told >= SECONDS_PER_UPDATE or each.done == each.size:
            tell(each)
            told = monotonic()


def _drop_parts(connection: Connection, plan: Plan, stop: Event, tell: Tell) -> None:
    from app.hub.download import drop_parts

    drop_parts(connection, plan)


def _read(path: Path) -> Iterator[Item]:
    """What an earlier run has left; nothing of a damaged file, whose parts on disk stay for the next try."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        yield from [_item(each) for each in stored]
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("the queue of downloads starts empty: %s", error)


def _item(stored: Mapping[str, Any]) -> Item:
    plan = stored["plan"]
    files = tuple(RepoFile(**each) for each in plan["files"])
    return Item(Plan(**{**plan, "files": files}), "paused" if stored["paused"] else "waiting")
