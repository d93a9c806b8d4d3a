"""What disappoints about a pair is told: in the badge's tool tip, to a screen reader, and in the terminal."""

from __future__ import annotations

import dataclasses
import io

from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from app.cli.say import TextView, describe
from app.records import GenerationRequest, Trace
from app.ui.pair_badge import PairBadge
from app.ui.theme import LIGHT
from tests.helpers.fake_engine import PAIR

NOTED = dataclasses.replace(PAIR, notes=("<b>Small</b> is larger.", "Drafts are \x1b[31mslow."))


def names(badge: PairBadge) -> QToolButton:
    return badge.findChildren(QToolButton)[0]


def test_the_badge_shows_notes_as_plain_text(qtbot: QtBot) -> None:
    badge = PairBadge(LIGHT)
    qtbot.addWidget(badge)
    badge.show_pair(NOTED)
    assert "&lt;b&gt;Small&lt;/b&gt; is larger.<br>" in names(badge).toolTip()
    assert "<b>Small</b> is larger.\n" in names(badge).accessibleDescription()
    badge.show_pair(PAIR)
    assert "larger" not in names(badge).toolTip() + names(badge).accessibleDescription()


def test_the_terminal_tells_notes_beside_the_reply() -> None:
    trace = Trace(GenerationRequest(()), "match", ())
    output, notes = io.StringIO(), io.StringIO()
    TextView(output, notes).finish(trace, NOTED)
    assert "larger" not in output.getvalue()
    assert notes.getvalue().startswith("note: <b>Small</b> is larger.\nnote: Drafts are \u241b[31mslow.\n")


def test_json_carries_notes() -> None:
    trace = Trace(GenerationRequest(()), "match", ())
    assert list(describe(trace, NOTED)["pair"]["notes"]) == list(NOTED.notes)
