"""Short work beside the engine: searching, looking at models, sorting what is on disk."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from threading import Event
from typing import Any

from PySide6.QtCore import QObject, QRunnable, QThreadPool, Signal, Slot

from app.errors import Cancelled, UserFacingError

Tell = Callable[[Any], None]
Work = Callable[[Event, Tell], Any]
"""Gets the event that asks it to end and a way to tell how far it is; returns what it was asked for."""

log = logging.getLogger(__name__)


class Task(QObject):
    """One piece of work. Ends with exactly one of its terminal signals; a cancelled one with neither."""

    progressed = Signal(object)
    done = Signal(object)  # terminal: what the work returned
    failed = Signal(object)  # terminal: UserFacingError
    over = Signal(object)  # the task itself, in every case and last of all

    _told = Signal(object)
    _ended = Signal(object, object)  # result, error

    def __init__(self, work: Work, parent: QObject) -> None:
        super().__init__(parent)
        self.stop = Event()
        self._work = work
        self._told.connect(self._tell)
        self._ended.connect(self._end)

    def cancel(self) -> None:
        """From here on it says nothing; the work itself ends as soon as it looks at the event."""
        self.stop.set()

    def run(self) -> None:
        """Does the work, in a thread of the pool."""
        result, failure = None, None
        try:
            if not self.stop.is_set():
                result = self._work(self.stop, self._told.emit)
        except Exception as error:
            failure = _explain(error)
        self._ended.emit(result, failure)

    @Slot(object)
    def _tell(self, progress: object) -> None:
        if not self.stop.is_set():
            self.progressed.emit(progress)

    @Slot(object, object)
    def _end(self, result: object, failure: Exception | None) -> None:
        if not self.stop.is_set() and not isinstance(failure, Cancelled):
            if failure is None:
                self.done.emit(result)
            else:
                self.failed.emit(failure)
        self.over.emit(self)


class Tasks(QObject):
    """A few threads that take turns with whatever is asked of them."""

    def __init__(self, threads: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(threads)
        self._running: set[Task] = set()

    def start(self, work: Work) -> Task:
        """Queues the work; connect to the task's signals at once, they come later."""
        task = Task(work, self)
        self._running.add(task)
        task.over.connect(self._forget)
        self._pool.start(_Runner(task))
        return task

    @Slot(object)
    def _forget(self, task: Task) -> None:
        self._running.discard(task)
        task.deleteLater()

    def shut_down(self) -> None:
        """Cancels everything and waits for it."""
        for task in self._running:
            task.cancel()
        self._pool.clear()
        self._pool.waitForDone()


class _Runner(QRunnable):
    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    def run(self) -> None:
        self._task.run()


def _explain(error: Exception) -> Exception:
    """What the person is told; a bug goes to the crash dialog as well."""
    if isinstance(error, Cancelled | UserFacingError):
        return error
    log.error("a task failed: %s", type(error).__name__)
    sys.excepthook(type(error), error, error.__traceback__)
    return UserFacingError(
        "Something went wrong inside Tandem.", "The details are in the report.", "Try again."
    )
