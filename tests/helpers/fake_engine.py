"""An engine without models: records what it is asked, and says what a test or a screenshot wants it to say."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.records import GenerationRequest, PairSpec, PairSummary, Round, Trace

PAIR = PairSummary("SmolLM2-135M-Instruct", "Starter assistant", "cpu", "bfloat16", 8192)


class FakeWorker(QObject):
    progressed = Signal(object)
    loaded = Signal(object)
    load_failed = Signal(object)
    rounds_arrived = Signal(object)
    finished = Signal(object)
    failed = Signal(object)
    pair_changed = Signal(object)


class FakeEngine(QObject):
    """Has the face of app.workers.engine.Engine."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = FakeWorker()
        self.loads: list[PairSpec] = []
        self.requests: list[GenerationRequest] = []
        self.stops = 0

    def load(self, spec: PairSpec, cache: Path | None = None) -> None:
        self.loads.append(spec)

    def generate(self, request: GenerationRequest) -> None:
        self.requests.append(request)

    def stop(self) -> None:
        self.stops += 1

    def shut_down(self) -> None:
        self.stop()

    def finish(self, rounds: tuple[Round, ...]) -> None:
        """Ends the running reply with a trace of these rounds."""
        self.worker.finished.emit(Trace(self.requests[-1], "speculative", rounds))
