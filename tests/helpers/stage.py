"""The real window in front of a scripted engine, for tests and pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QEventLoop, QSize, Qt, QTimer
from PySide6.QtGui import QCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QPushButton, QWidget

from app.settings import SettingsFile
from app.ui.controllers import Controllers
from app.ui.main_window import MainWindow
from app.ui.rail import Page
from app.ui.rows import RESTS, RowView
from app.ui.theme import Appearance
from tests.helpers.fake_engine import FakeEngine
from tests.helpers.hub_server import Hub
from tests.helpers.sample_rounds import make_rounds

Control = TypeVar("Control", bound=QWidget)

SETTLES_WITHIN = 600  # turns of 50 ms
WIDE, SMALL = QSize(1280, 800), QSize(900, 600)


@dataclass
class Stage:
    """The real window with a scripted engine behind it."""

    window: MainWindow
    controllers: Controllers
    engine: FakeEngine
    settings: SettingsFile
    folder: Path
    hub: Hub | None = None

    def ask(self, text: str) -> None:
        box = self.window.chat_page.prompt_box
        box.set_text(text)
        box.submitted.emit(box.text())
        box.set_text("")

    def control(self, name: str, kind: type[Control]) -> Control:
        """The settings control with that accessible name."""
        return next(each for each in self.window.findChildren(kind) if each.accessibleName() == name)

    def button(self, text: str) -> QPushButton:
        """The button on the page in view that begins with these words."""
        shown = [each for each in self.window.findChildren(QPushButton) if each.isVisible()]
        return next(each for each in shown if each.text().startswith(text))

    def words(self) -> str:
        """All that labels and lists say on the page in view."""
        labels = [each.text() for each in self.window.findChildren(QLabel) if each.isVisible()]
        return "\n".join([*labels, *(line for view in self._lists() for line in rows(view))])

    def _lists(self) -> list[RowView]:
        return [each for each in self.window.findChildren(RowView) if each.isVisible()]

    def connect_to(self, hub: Hub) -> None:
        """Goes to a Hub on this machine."""
        self.hub = hub
        self.settings.set("endpoint", hub.url)
        self.settings.set("offline", False)

    def open(self, page: Page) -> None:
        self.window.show_page(page)
        self.settle()

    def look_at(self, repo: str) -> None:
        """Chooses a model among those found."""
        view = self.window.models_page.view
        place = view.rows.place(repo)
        assert place is not None, rows(view)
        view.setCurrentIndex(view.rows.index(place))
        self.settle()

    def settle(self) -> None:
        """Waits until nothing is looked up any more, also what rows at rest in view ask for."""
        quiet = 0
        for _ in range(SETTLES_WITHIN):
            wait(50)
            quiet = 0 if self.controllers.tasks._running else quiet + 1
            if quiet > RESTS / 50 + 2:
                return
        raise TimeoutError("the lookups do not end")

    def wait_for(self, what: Callable[[], object]) -> None:
        for _ in range(SETTLES_WITHIN):
            if what():
                return
            wait(50)
        raise TimeoutError(f"it does not happen; shown is: {self.words()}")

    def answer(self, script: tuple[tuple[str, str, str], ...]) -> None:
        rounds = make_rounds(script, "eos")
        self.engine.worker.rounds_arrived.emit(rounds)
        self.engine.finish(rounds)


def wait(milliseconds: int) -> None:
    """Lets the window and all threads go on; QTest's own waiting keeps other threads from running Python."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def rows(view: RowView) -> list[str]:
    """A list's rows as they are read out."""
    places = (view.rows.index(place) for place in range(view.rows.rowCount()))
    return [each.data(Qt.ItemDataRole.AccessibleTextRole) for each in places]


def make_stage(appearance: Appearance, folder: Path, size: QSize) -> Stage:
    settings = SettingsFile(folder / "settings.json")
    settings.set("offline", True)  # until a screen has a Hub of its own
    settings.set("models_folder", str(folder / "cache"))
    window = MainWindow(appearance.theme, settings.values)
    engine = FakeEngine()
    controllers = Controllers(window, engine, settings, folder)  # type: ignore[arg-type]
    QCursor.setPos(3000, 3000)  # over no button
    window.resize(size)
    window.show()
    controllers.begin()
    QTest.qWaitForWindowExposed(window)
    return Stage(window, controllers, engine, settings, folder)


def save(window: QWidget, path: Path) -> None:
    """The window with whatever floats above it, in one picture."""
    picture = window.grab()
    for floating in QApplication.topLevelWidgets():
        above = isinstance(floating, QDialog) or floating.windowFlags() & Qt.WindowType.ToolTip
        if floating is not window and floating.isVisible() and above:
            floating.render(picture, window.mapFromGlobal(floating.pos()))
    picture.save(str(path))
    sys.stdout.write(f"{path}\n")
