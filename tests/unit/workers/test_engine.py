"""The engine's thread: one terminal signal per job whatever happens, stop at once, an orderly end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import pytest
from PySide6.QtCore import QObject, Slot
from pytestqt.qtbot import QtBot

from app.engine.cached_model import ModelPair
from app.errors import Cancelled, UserFacingError
from app.models import loading
from app.records import (
    DraftSettings,
    GenerationRequest,
    Message,
    PairSpec,
    Progress,
    Round,
    SamplingSettings,
    Trace,
)
from app.workers.engine import Engine
from tests.helpers.scripted import ScriptedModel, last_two_tokens, scripted_pair

VOCABULARY = 5


class Ear(QObject):
    """Writes down every signal of a worker, in order, in the thread of the test."""

    def __init__(self, engine: Engine, qtbot: QtBot) -> None:
        super().__init__()
        self.heard: list[tuple[str, object]] = []
        self._qtbot = qtbot
        for name in ("loaded", "load_failed", "rounds_arrived", "finished", "failed", "pair_changed"):
            getattr(engine.worker, name).connect(getattr(self, name))  # bound slots: queued, not direct

    @Slot(object)
    def loaded(self, value: object) -> None:
        self.heard.append(("loaded", value))

    @Slot(object)
    def load_failed(self, value: object) -> None:
        self.heard.append(("load_failed", value))

    @Slot(object)
    def rounds_arrived(self, value: object) -> None:
        self.heard.append(("rounds_arrived", value))

    @Slot(object)
    def finished(self, value: object) -> None:
        self.heard.append(("finished", value))

    @Slot(object)
    def failed(self, value: object) -> None:
        self.heard.append(("failed", value))

    @Slot(object)
    def pair_changed(self, value: object) -> None:
        self.heard.append(("pair_changed", value))

    def endings(self) -> list[tuple[str, object]]:
        return [(name, value) for name, value in self.heard if name not in ("rounds_arrived", "pair_changed")]

    def rounds(self) -> tuple[Round, ...]:
        return tuple(each for name, batch in self.heard if name == "rounds_arrived" for each in batch)  # type: ignore[attr-defined]

    def wait(self, name: str, count: int = 1) -> Any:
        """Waits for the `count`th ending, makes sure that it is `name`, and returns what it carries."""
        self._qtbot.waitUntil(lambda: len(self.endings()) >= count, timeout=20_000)
        self._qtbot.wait(20)  # a signal too many would come now
        assert len(self.endings()) == count
        assert self.endings()[-1][0] == name
        return self.endings()[-1][1]


@pytest.fixture
def pair() -> ModelPair:
    script = last_two_tokens(1, VOCABULARY)
    return scripted_pair(ScriptedModel(script, VOCABULARY), ScriptedModel(script, VOCABULARY))


@pytest.fixture
def engine(pair: ModelPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    def load(
        spec: PairSpec, models: Path, stop: Event, tell: Callable[[Progress], None], cache: Path | None
    ) -> ModelPair:
        tell(Progress("Loading", 0.5))
        return pair

    monkeypatch.setattr(loading, "load_pair", load)
    engine = Engine(tmp_path)
    yield engine
    engine.shut_down()


@pytest.fixture
def ear(engine: Engine, qtbot: QtBot) -> Ear:
    ear = Ear(engine, qtbot)
    engine.load(PairSpec())
    ear.wait("loaded")
    ear.heard.clear()
    return ear


def ask(tokens: int, draft_length: int = 2) -> GenerationRequest:
    return GenerationRequest(
        (Message("user", "1 2 3"),), SamplingSettings(0.7), DraftSettings("assistant", draft_length), tokens
    )


def test_a_reply_ends_with_one_trace_of_all_its_rounds(engine: Engine, ear: Ear, qtbot: QtBot) -> None:
    engine.generate(ask(40))
    trace = ear.wait("finished")
    assert trace.finish_reason == "length"
    assert trace.rule == "speculative"
    assert trace.rounds == ear.rounds()
    assert sum(len(each.emitted) for each in trace.rounds) == 40


def test_a_quick_pair_is_handed_over_in_batches(engine: Engine, ear: Ear, qtbot: QtBot) -> None:
    engine.generate(ask(600))
    trace = ear.wait("finished")
    batches = sum(name == "rounds_arrived" for name, _ in ear.heard)
    assert batches < len(trace.rounds) / 2


def slow_down(pair: ModelPair, begun: Event) -> None:
    """Gives every forward pass of the target a little time, and tells when the first begins."""

    def before(count: int) -> None:
        begun.set()
        sleep(0.002)

    pair.target.before_forward = before  # type: ignore[attr-defined]


def test_stop_ends_a_reply_and_keeps_its_rounds(
    engine: Engine, ear: Ear, pair: ModelPair, qtbot: QtBot
) -> None:
    slow_down(pair, Event())
    engine.generate(ask(9000))
    qtbot.waitUntil(lambda: bool(ear.rounds()))
    engine.stop()
    trace = ear.wait("finished")
    assert trace.finish_reason == "stopped"
    assert trace.rounds == ear.rounds() and trace.rounds


def test_a_second_request_waits_for_the_first_and_both_end(
    engine: Engine, ear: Ear, pair: ModelPair, qtbot: QtBot
) -> None:
    begun = Event()
    slow_down(pair, begun)
    engine.generate(ask(9000))
    qtbot.waitUntil(begun.is_set)
    engine.stop()
    engine.generate(ask(7))
    assert ear.wait("finished", count=2).finish_reason == "length"
    first = ear.endings()[0][1]
    assert isinstance(first, Trace) and first.finish_reason == "stopped"


def test_what_a_person_can_mend_arrives_as_such(engine: Engine, ear: Ear, qtbot: QtBot) -> None:
    request = GenerationRequest((Message("user", "1"),), SamplingSettings(0.7), DraftSettings(rule="match"))
    engine.generate(request)
    error = ear.wait("failed")
    assert isinstance(error, UserFacingError) and error.remedy


def test_a_bug_in_mid_reply_keeps_the_rounds_reports_itself_and_leaves_the_pair_usable(
    engine: Engine, ear: Ear, pair: ModelPair, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[type] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: reported.append(kind))
    passes = iter(range(100))

    def before(count: int) -> None:
        if next(passes) == 6:
            raise ZeroDivisionError("a bug")

    pair.target.before_forward = before  # type: ignore[attr-defined]
    engine.generate(ask(200))
    assert isinstance(ear.wait("failed"), UserFacingError)
    assert reported == [ZeroDivisionError]
    assert ear.rounds()
    pair.target.before_forward = lambda count: None  # type: ignore[attr-defined]
    engine.generate(ask(5))
    ear.wait("finished", count=2)


def test_h6_memory_that_runs_out_while_writing_costs_the_assistant_and_not_the_reply(
    engine: Engine, ear: Ear, pair: ModelPair
) -> None:
    passes = iter(range(100))

    def before(count: int) -> None:
        if next(passes) == 6:
            raise MemoryError

    pair.target.before_forward = before  # type: ignore[attr-defined]
    engine.generate(ask(200))
    error = ear.wait("failed")
    assert "the assistant was let go" in error.title and error.remedy
    assert ear.rounds()
    (summary,) = [value for name, value in ear.heard if name == "pair_changed"]
    assert summary.assistant is None and summary.assistant_off == "memory ran out while writing"  # type: ignore[attr-defined]
    pair.target.before_forward = lambda count: None  # type: ignore[attr-defined]
    ear.heard.clear()
    alone = replace(ask(5), draft=DraftSettings(drafter="none"))
    engine.generate(alone)
    assert isinstance(ear.wait("finished"), Trace)
    assert not any(each.candidates for each in ear.rounds())
    ear.heard.clear()
    pair.target.before_forward = before  # type: ignore[attr-defined]
    passes = iter((6, 7))
    engine.generate(alone)
    assert "not enough memory" in ear.wait("failed").title


def test_a_request_before_any_pair_is_refused(tmp_path: Path, qtbot: QtBot) -> None:
    engine = Engine(tmp_path)
    ear = Ear(engine, qtbot)
    engine.generate(ask(5))
    assert isinstance(ear.wait("failed"), UserFacingError)
    engine.shut_down()


def test_a_failed_load_says_why_and_the_next_one_can_work(
    tmp_path: Path, pair: ModelPair, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = [UserFacingError("No such model."), pair]

    def load(
        spec: PairSpec, models: Path, stop: Event, tell: Callable[[Progress], None], cache: Path | None
    ) -> ModelPair:
        tell(Progress("Loading"))
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(loading, "load_pair", load)
    engine = Engine(tmp_path)
    ear = Ear(engine, qtbot)
    engine.load(PairSpec())
    assert isinstance(ear.wait("load_failed"), UserFacingError)
    engine.load(PairSpec())
    ear.wait("loaded", count=2)
    engine.shut_down()


def test_shutting_down_while_loading_cancels_it(
    tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Event()

    def load(
        spec: PairSpec, models: Path, stop: Event, tell: Callable[[Progress], None], cache: Path | None
    ) -> ModelPair:
        begun.set()
        while not stop.is_set():
            tell(Progress("Loading"))
            sleep(0.002)
        raise Cancelled

    monkeypatch.setattr(loading, "load_pair", load)
    engine = Engine(tmp_path)
    engine.load(PairSpec())
    qtbot.waitUntil(begun.is_set)
    engine.shut_down()
    assert not engine._thread.isRunning()


def test_shutting_down_in_mid_reply_ends_the_thread(
    engine: Engine, ear: Ear, pair: ModelPair, qtbot: QtBot
) -> None:
    begun = Event()
    slow_down(pair, begun)
    engine.generate(ask(9000))
    qtbot.waitUntil(begun.is_set)
    engine.shut_down()
    assert not engine._thread.isRunning()
