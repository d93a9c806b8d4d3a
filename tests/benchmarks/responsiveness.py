"""How smoothly the window runs while the pair loads and while it writes.

A timer in the window's own thread is due every 5 milliseconds; how late it comes is how long the window did
not react. The real window, the real pair; recording and ghosts are on, as by default.

Then a search of 10,000 models is scrolled from its top to its end and back, a screen at a time, with all rows in
the list and two glances a screen arriving.

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
from app.hub.entries import Glance, ModelEntry
from app.records import PairSpec, Trace
from tests.helpers.stage import wait

INTERVAL = 5  # milliseconds
MODELS, FRAME = 10_000, 16  # search results, and milliseconds from one step of scrolling to the next


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
    program = Application(application)
    program.controllers.shelf.pair = PairSpec.of("starter", assistant)  # for this run alone
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
    heartbeat.restart()
    scroll(program)
    scrolling = heartbeat.figures()
    program.window.close()
    return {
        "loading": loading,
        "generating": generating,
        "scrolling": scrolling,
        "tokens": emitted,
        "tokens_per_second": emitted / seconds,
    }


def scroll(program: Application) -> None:
    """Ten thousand search results, from the first to the last and back."""
    page = program.window.models_page
    program.window._stack.setCurrentWidget(page)  # not by the rail: nothing is asked of a Hub
    page.show_entries([_entry(number) for number in range(MODELS)], {}, False)
    wait(50)  # until the list is laid out
    bar = page.view.verticalScrollBar()
    places = range(0, bar.maximum(), page.view.height())
    for place in (*places, *reversed(places)):
        bar.setValue(place)
        for number in (place // 46, place // 46 + 3):
            glance = Glance(f"lab/model-{number:05}", "0" * 40, 1_000_000 * number, 32768)
            page.show_again(_entry(number), glance)
        wait(FRAME)


def _entry(number: int) -> ModelEntry:
    return ModelEntry(
        repo=f"lab/model-{number:05}",
        downloads=1_000_000 // (number + 1),
        likes=number,
        licence="apache-2.0",
        gated=number % 7 == 0,
        private=False,
        parameters=1_000_000 * (number + 1),
        architecture="LlamaForCausalLM",
        updated="2026-01-02",
        formats=("safetensors",),
        present=number % 50 == 0,
    )


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
    for phase in ("loading", "generating", "scrolling"):
        numbers = figures[phase]
        assert isinstance(numbers, dict)
        print(
            f"{phase:10}  late by: median {numbers['median_ms']:.1f} ms, 99th percentile {numbers['p99_ms']:.1f} ms, "
            f"worst {numbers['worst_ms']:.0f} ms   ({numbers['beats']} beats)"
        )
    print(f"{figures['tokens']} tokens at {figures['tokens_per_second']:.1f} tokens/s meanwhile")


if __name__ == "__main__":
    main()
