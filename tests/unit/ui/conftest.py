"""The real window in front of a scripted engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.ui.theme import LIGHT, Appearance
from tests.helpers.stage import WIDE, Stage, make_stage


@pytest.fixture
def appearance(qapp: QApplication) -> Iterator[Appearance]:
    appearance = Appearance(qapp)
    appearance.apply(LIGHT)
    yield appearance
    appearance.deleteLater()


@pytest.fixture
def stage(qtbot: QtBot, appearance: Appearance, tmp_path: Path) -> Iterator[Stage]:
    """The window as it is when the program has just been started: the pair is being loaded."""
    stage = make_stage(appearance, tmp_path, WIDE)
    appearance.changed.connect(stage.window.take_theme)
    qtbot.addWidget(stage.window)
    yield stage
    stage.controllers.shut_down()
