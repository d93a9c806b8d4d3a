"""What a person does in the chat and what the window then asks, shows and keeps."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QLabel, QPlainTextEdit, QPushButton, QToolButton
from pytestqt.qtbot import QtBot

from app.errors import UserFacingError
from app.records import Message, Progress
from app.ui.reply_view import ReplyView
from tests.helpers.fake_engine import PAIR
from tests.helpers.sample_rounds import BICYCLE, LIST, make_rounds
from tests.helpers.stage import Stage

TROUBLE = UserFacingError("There is not enough memory.", "Two models need more.", "Close other programs.")


def editor(stage: Stage) -> QPlainTextEdit:
    return stage.control("Message", QPlainTextEdit)


def button(stage: Stage) -> QPushButton:
    return stage.window.chat_page.prompt_box.findChild(QPushButton)  # type: ignore[return-value]


def badge(stage: Stage) -> str:
    return stage.control("Pair state", QLabel).text()


def replies(stage: Stage) -> list[str]:
    return [view.text() for view in stage.window.findChildren(ReplyView)]


def write(stage: Stage, text: str) -> None:
    QTest.keyClicks(editor(stage), text)
    QTest.keyClick(editor(stage), Qt.Key.Key_Return)


@pytest.fixture
def ready(stage: Stage) -> Stage:
    stage.engine.worker.loaded.emit(PAIR)
    return stage


def test_while_loading_a_message_can_be_written_but_not_sent(stage: Stage) -> None:
    stage.engine.worker.progressed.emit(Progress("Loading the target", 0.7))
    assert "Loading the target" in badge(stage) and "70 %" in badge(stage)
    write(stage, "Hello")
    assert not stage.engine.requests
    assert editor(stage).toPlainText() == "Hello"
    stage.engine.worker.loaded.emit(PAIR)
    QTest.keyClick(editor(stage), Qt.Key.Key_Return)
    assert stage.engine.requests[0].messages == (Message("user", "Hello"),)


def test_shift_enter_breaks_the_line_and_enter_sends(ready: Stage) -> None:
    QTest.keyClicks(editor(ready), "one")
    QTest.keyClick(editor(ready), Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(editor(ready), "two")
    QTest.keyClick(editor(ready), Qt.Key.Key_Enter)
    assert ready.engine.requests[0].messages[0].content == "one\ntwo"
    assert editor(ready).toPlainText() == ""


def test_an_empty_message_is_not_sent(ready: Stage) -> None:
    write(ready, "   ")
    assert not ready.engine.requests


def test_every_setting_reaches_the_request(ready: Stage) -> None:
    for name, value in {
        "Temperature": 0.25,
        "Draft length": 7,
        "Top-k": 40,
        "Top-p": 0.9,
        "Seed": 12,
    }.items():
        ready.control(name, QDoubleSpinBox).setValue(value)
    ready.control("Longest reply", QDoubleSpinBox).setValue(99)
    for name, choice in {"Drafter": "lookup", "Schedule": "heuristic", "Rule": "sample-match"}.items():
        box = ready.control(name, QComboBox)
        box.setCurrentIndex(box.findData(choice))
    write(ready, "Hi")
    request = ready.engine.requests[0]
    assert (request.sampling.temperature, request.sampling.top_k, request.sampling.top_p) == (0.25, 40, 0.9)
    assert (request.sampling.seed, request.max_new_tokens) == (12, 99)
    assert (request.draft.drafter, request.draft.draft_length) == ("lookup", 7)
    assert (request.draft.schedule, request.draft.rule) == ("heuristic", "sample-match")


def choose(stage: Stage, name: str, choice: str) -> None:
    box = stage.control(name, QComboBox)
    box.setCurrentIndex(box.findData(choice))


def test_the_rarer_settings_reach_the_request_too(ready: Stage) -> None:
    values = {
        "Min-p": 0.1,
        "Typical-p": 0.9,
        "Repetition penalty": 1.2,
        "Presence penalty": -0.5,
        "Frequency penalty": 0.3,
        "Confidence": 0.25,
        "Exit layer": 4,
    }
    for name, value in values.items():
        ready.control(name, QDoubleSpinBox).setValue(value)
    choose(ready, "Drafter", "early-exit")
    choose(ready, "Schedule", "automatic")
    write(ready, "Hi")
    sampling, draft = ready.engine.requests[0].sampling, ready.engine.requests[0].draft
    assert (sampling.min_p, sampling.typical_p, sampling.repetition_penalty) == (0.1, 0.9, 1.2)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (-0.5, 0.3)
    assert (draft.confidence_threshold, draft.exit_layer) == (0.25, 4)
    assert (draft.drafter, draft.schedule) == ("early-exit", "automatic")


def test_only_settings_that_have_an_effect_are_shown(ready: Stage) -> None:
    names = {"Confidence", "Draft length", "Exit layer"}

    def shown() -> set[str]:
        return {name for name in names if not ready.control(name, QDoubleSpinBox).parentWidget().isHidden()}

    assert shown() == {"Draft length"}
    choose(ready, "Schedule", "confidence")
    choose(ready, "Drafter", "early-exit")
    assert shown() == names
    choose(ready, "Schedule", "automatic")
    assert shown() == {"Exit layer"}


def test_a_number_that_switches_off_says_so(ready: Stage) -> None:
    """D4: the threshold is a number, and its zero reads Off."""
    choose(ready, "Schedule", "confidence")
    field = ready.control("Confidence", QDoubleSpinBox)
    field.setValue(0)
    assert field.text() == "Off"
    assert ready.settings.values["confidence_threshold"] == 0


def test_the_rarer_sampling_settings_are_folded_until_wanted(ready: Stage, qtbot: QtBot) -> None:
    field = ready.control("Min-p", QDoubleSpinBox)
    assert not field.isVisible()
    fold = next(b for b in ready.window.findChildren(QToolButton) if b.text() == "More sampling")
    qtbot.mouseClick(fold, Qt.MouseButton.LeftButton)
    assert field.isVisible()


def test_two_sources_have_an_acceptance_each(ready: Stage) -> None:
    write(ready, "How?")
    copied = make_rounds((("A| b| c", "", " d"), ("", " e", " f")), source="lookup")
    ready.engine.worker.rounds_arrived.emit(make_rounds(BICYCLE))
    assert not [
        label
        for label in ready.window.findChildren(QLabel)
        if label.text().startswith("assistant ") and label.isVisible()
    ]
    ready.engine.worker.rounds_arrived.emit(copied)
    ready.engine.finish(copied)
    QTest.qWait(300)  # figures change four times a second
    (label,) = [each for each in ready.window.findChildren(QLabel) if "lookup 75 % of 4" in each.text()]
    assert label.isVisible() and label.text().startswith("assistant ")


def test_automatic_drafts_whatever_the_draft_length(ready: Stage) -> None:
    ready.control("Draft length", QDoubleSpinBox).setValue(0)
    choose(ready, "Schedule", "automatic")
    assert badge(ready) == "Idle"
    choose(ready, "Drafter", "none")
    assert badge(ready) == "Off because no drafter is chosen"


def test_a_reply_appears_round_by_round_and_ends_with_its_figures(ready: Stage) -> None:
    write(ready, "How?")
    assert badge(ready) == "Active"
    rounds = make_rounds(BICYCLE, "eos")
    for each in rounds:
        ready.engine.worker.rounds_arrived.emit((each,))
    assert replies(ready) == ["".join(each.text for each in rounds)]
    ready.engine.finish(rounds)
    assert badge(ready) == "Idle"
    emitted = sum(len(each.emitted) for each in rounds)
    judged = sum(each.num_judged for each in rounds)
    accepted = sum(each.num_accepted for each in rounds)
    note = next(w.text() for w in ready.window.findChildren(QLabel) if "tokens/round" in w.text())
    assert f"{emitted} tokens" in note
    assert f"{emitted / len(rounds):.2f} tokens/round" in note
    assert f"{100 * accepted / judged:.0f} % accepted" in note


def test_the_next_turn_carries_the_conversation(ready: Stage) -> None:
    write(ready, "First")
    ready.answer(BICYCLE)
    write(ready, "Second")
    roles = [message.role for message in ready.engine.requests[1].messages]
    assert roles == ["user", "assistant", "user"]
    assert ready.engine.requests[1].messages[1].content == replies(ready)[0]


def test_escape_stops_and_the_partial_text_stays(ready: Stage) -> None:
    write(ready, "How?")
    rounds = make_rounds(BICYCLE[:3])
    ready.engine.worker.rounds_arrived.emit(rounds)
    QTest.keyClick(editor(ready), Qt.Key.Key_Escape)
    assert ready.engine.stops == 1
    ready.engine.finish(rounds)
    assert replies(ready) == ["".join(each.text for each in rounds)]
    assert any("stopped" in label.text() for label in ready.window.findChildren(QLabel))
    write(ready, "Go on")
    assert ready.engine.requests[1].messages[1].content == replies(ready)[0]


def test_the_button_is_stop_while_writing(ready: Stage, qtbot: QtBot) -> None:
    write(ready, "How?")
    assert button(ready).accessibleName() == "Stop"
    qtbot.mouseClick(button(ready), Qt.MouseButton.LeftButton)
    assert ready.engine.stops == 1


def test_a_second_message_waits_for_the_end_of_the_first(ready: Stage) -> None:
    write(ready, "One")
    write(ready, "Two")
    assert len(ready.engine.requests) == 1
    assert editor(ready).toPlainText() == "Two"
    ready.answer(BICYCLE)
    QTest.keyClick(editor(ready), Qt.Key.Key_Return)
    assert len(ready.engine.requests) == 2


def test_a_failure_before_any_text_gives_the_message_back(ready: Stage) -> None:
    write(ready, "How?")
    ready.engine.worker.failed.emit(TROUBLE)
    assert editor(ready).toPlainText() == "How?"
    assert replies(ready) == [] or not ready.window.findChildren(ReplyView)[0].isVisible()
    shown = " ".join(label.text() for label in ready.window.chat_page.message_bar.findChildren(QLabel))
    assert TROUBLE.title in shown and TROUBLE.remedy in shown
    QTest.keyClick(editor(ready), Qt.Key.Key_Return)
    assert ready.engine.requests[1].messages == (Message("user", "How?"),)


def test_a_failure_in_the_middle_keeps_what_was_written(ready: Stage) -> None:
    write(ready, "How?")
    rounds = make_rounds(BICYCLE[:4])
    ready.engine.worker.rounds_arrived.emit(rounds)
    ready.engine.worker.failed.emit(TROUBLE)
    assert replies(ready) == ["".join(each.text for each in rounds)]
    assert button(ready).accessibleName() == "Send"
    assert badge(ready) == "Idle"


def test_a_failed_load_says_why_and_can_be_tried_again(stage: Stage, qtbot: QtBot) -> None:
    stage.engine.worker.load_failed.emit(TROUBLE)
    assert badge(stage).startswith("Off because there is not enough memory")
    again = next(b for b in stage.window.findChildren(QPushButton) if b.text() == "Try again")
    qtbot.mouseClick(again, Qt.MouseButton.LeftButton)
    assert len(stage.engine.loads) == 2
    assert not stage.window.chat_page.message_bar.isVisible()


def test_a_new_chat_forgets_the_old_one(ready: Stage) -> None:
    write(ready, "First")
    ready.answer(LIST)
    QTest.keyClick(ready.window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    write(ready, "Second")
    assert ready.engine.requests[1].messages == (Message("user", "Second"),)


def test_a_new_chat_while_writing_stops_first_and_waits_for_the_end(ready: Stage) -> None:
    write(ready, "First")
    rounds = make_rounds(BICYCLE[:2])
    ready.engine.worker.rounds_arrived.emit(rounds)
    ready.window.new_chat_requested.emit()
    assert ready.engine.stops == 1
    write(ready, "Second")
    assert len(ready.engine.requests) == 1
    ready.engine.finish(rounds)
    QTest.keyClick(editor(ready), Qt.Key.Key_Return)
    assert ready.engine.requests[1].messages == (Message("user", "Second"),)


def test_plain_generation_says_why_nothing_is_drafted(ready: Stage) -> None:
    ready.control("Draft length", QDoubleSpinBox).setValue(0)
    assert badge(ready) == "Off because the draft length is 0"
    ready.control("Draft length", QDoubleSpinBox).setValue(2)
    assert badge(ready) == "Idle"


def test_settings_are_remembered(ready: Stage, tmp_path: object) -> None:
    ready.control("Temperature", QDoubleSpinBox).setValue(1.15)
    QTest.keyClick(ready.window, Qt.Key.Key_I, Qt.KeyboardModifier.ControlModifier)
    again = type(ready.settings)(ready.settings._path)
    assert again.values["temperature"] == 1.15
    assert again.values["side_panel"] is False


def test_the_side_panel_becomes_a_drawer_in_a_narrow_window(ready: Stage, qtbot: QtBot) -> None:
    ready.window.resize(1280, 800)
    qtbot.waitUntil(ready.window.side_panel.isVisible)
    ready.window.resize(900, 600)
    qtbot.waitUntil(lambda: not ready.window.side_panel.isVisible())
    QTest.keyClick(ready.window, Qt.Key.Key_I, Qt.KeyboardModifier.ControlModifier)
    assert ready.window.side_panel.isVisible()
    assert ready.settings.values["side_panel"] is True
    ready.window.resize(1280, 800)
    qtbot.waitUntil(ready.window.side_panel.isVisible)
