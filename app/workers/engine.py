"""The engine's thread: one long-lived QThread that owns the loaded pair and works off one job at a time."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, Signal, Slot

from app.errors import Cancelled, UserFacingError
from app.records import GenerationRequest, PairSpec, Progress, Round, Trace

if TYPE_CHECKING:
    from app.engine.cached_model import ModelPair

log = logging.getLogger(__name__)

SECONDS_PER_UPDATE = 1 / 30
"""Rounds are handed over in batches at the screen's rate: a quick pair must not flood the window."""


@dataclass(frozen=True)
class LoadJob:
    spec: PairSpec
    cache: Path | None = None  # where the models of the Hub are
    stop: Event = field(default_factory=Event)


@dataclass(frozen=True)
class GenerateJob:
    request: GenerationRequest
    stop: Event = field(default_factory=Event)


class EngineWorker(QObject):
    """Lives in the engine's thread. Every job ends with exactly one of its terminal signals.

    Nothing here imports torch before the first job, so that the window is up first.
    """

    progressed = Signal(object)  # Progress, of loading or of reading the prompt
    loaded = Signal(object)  # terminal: PairSummary
    load_failed = Signal(object)  # terminal: UserFacingError, or Cancelled
    rounds_arrived = Signal(object)  # tuple[Round, ...]
    finished = Signal(object)  # terminal: Trace, also after Stop
    failed = Signal(object)  # terminal: UserFacingError
    pair_changed = Signal(object)  # PairSummary: the assistant was let go, before `failed` says so

    def __init__(self, models: Path) -> None:
        super().__init__()
        self._models = models
        self._pair: ModelPair | None = None

    @Slot(object)
    def load(self, job: LoadJob) -> None:
        ending: Exception = Cancelled()
        try:
            self._unload()
            self._pair = self._load(job)
        except Exception as error:
            ending = _explain(error)
        finally:
            if self._pair is not None:
                self.loaded.emit(self._pair.summary)
            else:
                self.load_failed.emit(ending)

    @Slot(object)
    def generate(self, job: GenerateJob) -> None:
        trace: Trace | None = None
        ending: Exception = UserFacingError("The reply was broken off.")
        try:
            trace = self._generate(job)
        except Exception as error:
            ending = self._lighten(error) or _explain(error)
        finally:
            if trace is not None:
                self.finished.emit(trace)
            else:
                self.failed.emit(ending)

    def _lighten(self, error: Exception) -> UserFacingError | None:
        """Lets the assistant go where memory has run out, and says so; None for every other failure (H6)."""
        from app.engine.failures import out_of_memory

        pair = self._pair
        if pair is None or pair.assistant is None or not out_of_memory(error):
            return None
        from app.models.loading import without_assistant
        from app.models.weights import release_memory

        self._pair = without_assistant(pair, "memory ran out while writing")
        del pair
        release_memory()
        log.warning("memory ran out while writing: the assistant was let go")
        self.pair_changed.emit(self._pair.summary)
        return UserFacingError(
            "Memory ran out, so the assistant was let go.",
            "What was written so far is kept, and the target goes on alone.",
            "Send the message again; with other programs closed, the pair can be loaded again.",
        )

    def _unload(self) -> None:
        """Before new models come the old ones go, and what they held is given back."""
        if self._pair is None:
            return
        from app.models.weights import release_memory

        self._pair = None
        release_memory()

    def _load(self, job: LoadJob) -> ModelPair:
        self.progressed.emit(Progress("Starting the engine"))
        from app.models.imports import import_quietly

        import_quietly()
        from app.models.loading import load_pair

        began = perf_counter()
        pair = load_pair(job.spec, self._models, job.stop, self.progressed.emit, job.cache)
        log.info("loaded %s in %.1f s", pair.summary, perf_counter() - began)
        return pair

    def _generate(self, job: GenerateJob) -> Trace:
        from app.engine.decoding import rounds
        from app.engine.rules import choose_rule

        if self._pair is None:
            raise UserFacingError("No models are loaded yet.", "", "Wait until the pair is loaded.")
        request = job.request
        kept: list[Round] = []
        for batch in _in_batches(rounds(self._pair, request, job.stop, self.progressed.emit)):
            kept.extend(batch)
            self.rounds_arrived.emit(batch)
        trace = Trace(request, choose_rule(request.draft, request.sampling), tuple(kept))
        log.info("reply of %d rounds ended: %s", len(kept), trace.finish_reason)
        return trace


class Engine(QObject):
    """The window's handle on the engine: starts jobs, stops them, and shuts the thread down."""

    _load_requested = Signal(object)
    _generate_requested = Signal(object)

    def __init__(self, models: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.worker = EngineWorker(models)
        self._thread = QThread(self)
        self._thread.setObjectName("engine")
        self.worker.moveToThread(self._thread)
        self._load_requested.connect(self.worker.load)
        self._generate_requested.connect(self.worker.generate)
        self._stop = Event()
        self._thread.start()

    def load(self, spec: PairSpec, cache: Path | None = None) -> None:
        job = LoadJob(spec, cache)
        self._stop = job.stop
        self._load_requested.emit(job)

    def generate(self, request: GenerationRequest) -> None:
        """Starts a reply behind whatever is still running: the worker takes one job at a time."""
        job = GenerateJob(request)
        self._stop = job.stop
        self._generate_requested.emit(job)

    def stop(self) -> None:
        """Asks the running job to end within one draft token or one forward pass; returns at once."""
        self._stop.set()

    def shut_down(self) -> None:
        """Stops the running job, waits for it and ends the thread."""
        self.stop()
        self._thread.quit()
        self._thread.wait()


def _in_batches(rounds: Iterator[Round]) -> Iterator[tuple[Round, ...]]:
    """The rounds, those that fall into one screen update together; a slow pair's one by one."""
    batch: list[Round] = []
    handed_over = 0.0
    failure: Exception | None = None
    try:
        for each in rounds:
            batch.append(each)
            if perf_counter() - handed_over >= SECONDS_PER_UPDATE:
                yield tuple(batch)
                batch.clear()
                handed_over = perf_counter()
    except Exception as error:
        failure = error
    if batch:
        yield tuple(batch)
    if failure is not None:  # only now: what was decoded before it is not lost
        raise failure


def _explain(error: Exception) -> Exception:
    """What the person is told. A bug is logged and shown by the crash dialog as well."""
    if isinstance(error, Cancelled | UserFacingError):
        return error
    from app.engine.failures import explain

    explained = explain(error)
    if explained is not None:
        return explained
    sys.excepthook(type(error), error, error.__traceback__)
    return UserFacingError(
        "Something went wrong inside Tandem.", "The details are in the report.", "Try again."
    )
