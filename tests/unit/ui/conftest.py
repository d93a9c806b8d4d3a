"""The real window in front of a scripted engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.records import PairSpec
from app.settings import SettingsFile
from app.ui.chat_controller import ChatController
from app.ui.main_window import MainWindow
from app.ui.theme import LIGHT, Appearance
from tests.helpers.fake_engine import FakeEngine
from tests.screens import Stage


@pytest.fixture
def appearance(qapp: QApplication) -> Iterator[Appearance]:
    appearance = Appearance(qapp)
    appearance.apply(LIGHT)
    yield appearance
    appearance.deleteLater()


@pytest.fixture
def stage(qtbot: QtBot, appearance: Appearance, tmp_path: Path) -> Stage:
    """The window as it is when the program has just been started: the pair is being loaded."""
    settings = SettingsFile(tmp_path / "settings.json")
    window = MainWindow(appearance.theme, settings.values)
    appearance.changed.connect(window.take_theme)
    engine = FakeEngine()
    controller = ChatController(window, engine, settings, PairSpec())  # type: ignore[arg-type]
    qtbot.addWidget(window)
    window.show()
    controller.load()
    return Stage(window, controller, engine, settings)
