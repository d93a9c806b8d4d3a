"""The real program with the real starter pair: written in, stopped, and closed at awkward moments."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDoubleSpinBox, QLabel, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.application import Application
from app.records import Round
from app.ui.reply_view import ReplyView

pytestmark = pytest.mark.starter

LONG = 240_000  # milliseconds: the first load converts the target, and the machine may be busy


class Person:
    """Somebody at the keyboard."""

    def __init__(self, program: Application, qtbot: QtBot) -> None:
        self.program, self.qtbot = program, qtbot
        self.window = program.window
        self.editor = self._named("Message", QPlainTextEdit)

    def _named(self, name: str, kind: type) -> QPlainTextEdit:
        return next(each for each in self.window.findChildren(kind) if each.accessibleName() == name)

    def set_number(self, name: str, value: float) -> None:
        self._named(name, QDoubleSpinBox).setValue(value)  # type: ignore[attr-defined]

    def state(self) -> str:
        return self._named("Pair state", QLabel).text()  # type: ignore[attr-defined]

    def send(self, text: str) -> None:
        QTest.keyClicks(self.editor, text)
        QTest.keyClick(self.editor, Qt.Key.Key_Return)
        assert self.state() == "Active"

    def wait_until_idle(self) -> None:
        self.qtbot.waitUntil(lambda: self.state() == "Idle", timeout=LONG)

    def replies(self) -> list[ReplyView]:
        return self.window.findChildren(ReplyView)


@pytest.fixture
def person(qtbot: QtBot, starter_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    monkeypatch.setenv("TANDEM_HOME", str(starter_home))
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    program = Application(application)
    program.show()
    person = Person(program, qtbot)
    person.wait_until_idle()
    yield person
    program.window.close()


def test_two_turns_and_a_stop(person: Person) -> None:
    person.set_number("Temperature", 0)
    person.set_number("Longest reply", 24)
    person.set_number("Draft length", 3)
    person.send("Name three colours.")
    person.wait_until_idle()
    first = person.replies()[0]
    rounds: list[Round] = first._rounds
    assert first.text().strip()
    assert {each.draft_length for each in rounds} == {3}
    assert len(rounds[0].candidates) == 3 >= max(len(each.candidates) for each in rounds)
    assert all(each.candidates[0].target_probability is not None for each in rounds[:-1])
    assert all(each.candidates[0].assistant_probability is not None for each in rounds[:-1])
    shown = [label.text() for label in person.window.findChildren(QLabel)]
    assert any("tokens/round" in text and "tokens/s" in text for text in shown)

    person.set_number("Longest reply", 2000)
    person.send("Now count to one thousand.")
    person.qtbot.waitUntil(lambda: len(person.replies()[1]._rounds) > 2, timeout=LONG)
    QTest.keyClick(person.editor, Qt.Key.Key_Escape)
    person.wait_until_idle()
    second = person.replies()[1]
    assert second.text()
    assert second._rounds[-1].finish_reason is None

    person.set_number("Longest reply", 5)
    person.send("Thank you.")
    person.wait_until_idle()
    assert len(person.replies()) == 3


CLOSES = """
import sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from app.application import Application

application = QApplication([])
program = Application(application)
moment = sys.argv[1]
worker, box = program.engine.worker, program.window.chat_page.prompt_box
if moment == "at once":
    QTimer.singleShot(0, program.window.close)
elif moment == "loading":
    worker.progressed.connect(lambda _: QTimer.singleShot(0, program.window, program.window.close))
else:
    worker.loaded.connect(lambda _: QTimer.singleShot(0, box, lambda: box.submitted.emit("Count to one thousand.")))
    worker.rounds_arrived.connect(lambda _: QTimer.singleShot(0, program.window, program.window.close))
program.show()
code = application.exec()
print("closed in order")
sys.exit(code)
"""


@pytest.mark.parametrize("moment", ["at once", "loading", "generating"])
def test_closing_at_any_moment_ends_cleanly(moment: str, starter_home: Path) -> None:
    environment = {**os.environ, "TANDEM_HOME": str(starter_home), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", CLOSES, moment],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=LONG / 1000,
    )
    assert ended.returncode == 0, ended.stderr
    assert "closed in order" in ended.stdout
    assert "QThread" not in ended.stderr
    assert "Traceback" not in ended.stderr
