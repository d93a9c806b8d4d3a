"""How smoothly the window runs while the pair loads and while it writes.

A timer in the window's own thread is due every 5 milliseconds; how late it comes is how long the window did
not react. The real window, the real pair; recording and ghosts are on, as by default.

    python -m tests.benchmarks.responsiveness [--json] [--tokens N] [--assistant PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from time import perf_counter

from PySide6.QtCore import QEventLoop, QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication

from app.application import Application
from app.records import PairSpec, Trace

INTERVAL = 5  # milliseconds


class Heartbeat(QObject):
    """Notes by how many milliseconds each beat of a 5 ms timer is late."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[float] = []
        self._last = perf_counter()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._timer.start(INTERVAL)

    def restart(self) -> None:
        self.late.clear()
        self._last = perf_counter()

    def _beat(self) -> None:
        now = perf_counter()
        self.late.append(max(0.0, (now - self._last) * 1000 - INTERVAL))
        self._last = now

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.late)
        return {
            "beats": len(ordered),
            "median_ms": statistics.median(ordered),
            "p99_ms": ordered[int(0.99 * (len(ordered) - 1))],
            "worst_ms": ordered[-1],
        }


def wait_for(connect: Callable[[Callable[[object], None]], object]) -> object:
    """Runs the event loop until the signal comes; returns what it carried."""
    loop, carried = QEventLoop(), []

    def arrive(value: object) -> None:
        carried.append(value)
        loop.quit()

    connect(arrive)
    loop.exec()
    return carried[0]


def measure(assistant: str, tokens: int) -> dict[str, object]:
    application = QApplication([])
    program = Application(application, PairSpec.of("starter", assistant))
    worker, page = program.engine.worker, program.window.chat_page
    program.window.side_panel.setting_changed.emit("max_new_tokens", tokens)
    program.window.side_panel.setting_changed.emit("temperature", 0.7)
    heartbeat = Heartbeat()
    worker.load_failed.connect(lambda error: sys.exit(f"loading failed: {error}"))
    program.show()
    wait_for(worker.loaded.connect)
    loading = heartbeat.figures()

    heartbeat.restart()
    page.prompt_box.submitted.emit("Explain how a bicycle stays upright, and tell its history in detail.")
    trace = wait_for(worker.finished.connect)
    generating = heartbeat.figures()
    assert isinstance(trace, Trace)
    seconds = sum(each.seconds for each in trace.rounds)
    emitted = sum(len(each.emitted) for each in trace.rounds)
    program.window.close()
    return {
        "loading": loading,
        "generating": generating,
        "tokens": emitted,
        "tokens_per_second": emitted / seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--assistant", default="starter")
    arguments = parser.parse_args()
    if not os.environ.get("DISPLAY"):
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    figures = measure(arguments.assistant, arguments.tokens)
    if arguments.json:
        print(json.dumps(figures))
        return
    for phase in ("loading", "generating"):
        numbers = figures[phase]
        assert isinstance(numbers, dict)
        print(
            f"{phase:10}  late by: median {numbers['median_ms']:.1f} ms, 99th percentile {numbers['p99_ms']:.1f} ms, "
            f"worst {numbers['worst_ms']:.0f} ms   ({numbers['beats']} beats)"
        )
    print(f"{figures['tokens']} tokens at {figures['tokens_per_second']:.1f} tokens/s meanwhile")


if __name__ == "__main__":
    main()
