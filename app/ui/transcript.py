"""The conversation on the screen: messages one below the other, following the newest while the reader is there."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPoint, Qt, Signal, Slot
from PySide6.QtGui import QFontMetrics, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.engine.stats import Statistics
from app.records import FinishReason, Round
from app.ui.reply_view import ReplyView
from app.ui.theme import UNIT, Theme, body_font, icon, named
from app.ui.token_card import TokenCard

COLUMN_CHARACTERS = 76
NEAR_END = 48  # pixels from the end within which new text is followed

ENDINGS: dict[FinishReason, str] = {
    "eos": "",
    "stop-string": "ended by a stop string",
    "stopped": "stopped",
    "length": "cut at the longest reply",
    "context": "the model's context is full",
}


class Transcript(QScrollArea):
    """A scrolled column of messages, centred and no wider than reads well."""

    hovered = Signal(object, QPoint)  # Span | None, global position

    def __init__(self, theme: Theme, ghosts: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Conversation")
        self._theme = theme
        self._ghosts = ghosts
        self._following = True
        self._replies: list[ReplyMessage] = []
        page = named(QWidget(), "page")
        self._column = QWidget()
        self._messages = QVBoxLayout(self._column)
        self._messages.setContentsMargins(0, 24, 0, 24)
        self._messages.setSpacing(24)
        self._messages.addStretch(1)
        layout = QHBoxLayout(page)
        layout.setContentsMargins(24, 0, 24, 0)
        layout.addStretch(1)
        layout.addWidget(self._column, 100)
        layout.addStretch(1)
        self._column.setMaximumWidth(COLUMN_CHARACTERS * QFontMetrics(body_font()).averageCharWidth())
        self.setWidget(page)
        self._card = TokenCard(self)
        bar = self.verticalScrollBar()
        bar.rangeChanged.connect(self._follow)
        bar.valueChanged.connect(self._note_place)

    @property
    def column_width(self) -> int:
        return self._column.maximumWidth()

    def add_user(self, text: str) -> None:
        self._following = True
        self._add(UserMessage(text))

    def add_reply(self, speaker: str) -> None:
        """Starts a reply; the rounds that follow belong to it."""
        reply = ReplyMessage(speaker, self._theme, self._ghosts)
        reply.view.hovered.connect(self._card.show_span)
        self._replies.append(reply)
        self._add(reply)

    def add_rounds(self, rounds: Iterable[Round]) -> None:
        self._replies[-1].add_rounds(rounds)

    def finish_reply(self, reason: FinishReason) -> None:
        self._replies[-1].finish(reason)

    def show_progress(self, text: str) -> None:
        """What the running reply waits for, before its first token."""
        self._replies[-1].show_note(text)

    def drop_last_turn(self) -> None:
        """Takes the last message and its empty reply away again."""
        self._replies.pop()
        for _ in range(2):
            self._drop(self._messages.count() - 2)  # the stretch stays last

    def clear(self) -> None:
        self._card.hide()
        self._replies.clear()
        while self._messages.count() > 1:
            self._drop(0)
        self._following = True

    def show_ghosts(self, ghosts: str) -> None:
        self._ghosts = ghosts
        for reply in self._replies:
            reply.view.show_ghosts(ghosts)

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._theme = theme
        for reply in self._replies:
            reply.take_theme(theme)

    def _drop(self, index: int) -> None:
        item = self._messages.takeAt(index)
        message = item.widget() if item else None
        if message is not None:
            message.hide()
            message.deleteLater()

    def _add(self, message: QWidget) -> None:
        self._messages.insertWidget(self._messages.count() - 1, message)

    @Slot()
    def _follow(self) -> None:
        if self._following:
            bar = self.verticalScrollBar()
            bar.setValue(bar.maximum())

    @Slot(int)
    def _note_place(self, value: int) -> None:
        self._following = self.verticalScrollBar().maximum() - value <= NEAR_END
        self._card.hide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._follow()


class UserMessage(QWidget):
    """What the person wrote, in a bubble on the right."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.setAccessibleName("Your message")
        bubble = named(QFrame(), "userBubble")
        label = QLabel(text, textFormat=Qt.TextFormat.PlainText, wordWrap=True)
        label.setFont(body_font())
        label.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        label.setAccessibleName("Your message")
        inner = QHBoxLayout(bubble)
        inner.setContentsMargins(14, 10, 14, 10)
        inner.addWidget(label)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(64, 0, 0, 0)
        layout.addStretch(1)
        layout.addWidget(bubble)
        # A wrapping label asks for a narrow column; short messages stay on one line, long ones use the width.
        width = QFontMetrics(body_font()).boundingRect(0, 0, 10_000, 10_000, 0, text).width()
        label.setMinimumWidth(min(width + 2, 420))
        bubble.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)


class ReplyMessage(QWidget):
    """A reply with its speaker above and its figures below."""

    def __init__(self, speaker: str, theme: Theme, ghosts: str) -> None:
        super().__init__()
        self.view = ReplyView(theme, ghosts)
        self._stats = Statistics()
        self._note = named(QLabel(textFormat=Qt.TextFormat.PlainText), "muted")
        self._copy = QToolButton()
        self._copy.setToolTip("Copy the reply without rejected drafts")
        self._copy.setAccessibleName("Copy reply")
        self._copy.clicked.connect(self._copy_text)
        self._copy.hide()
        name = named(QLabel(speaker, textFormat=Qt.TextFormat.PlainText), "speaker")
        footer = QHBoxLayout()
        footer.setSpacing(8)
        footer.addWidget(self._note)
        footer.addStretch(1)
        footer.addWidget(self._copy)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(UNIT)
        layout.addWidget(name)
        layout.addWidget(self.view)
        layout.addLayout(footer)
        self.take_theme(theme)

    def add_rounds(self, rounds: Iterable[Round]) -> None:
        rounds = tuple(rounds)
        for each in rounds:
            self._stats = self._stats.observe(each)
        self._note.clear()
        self.view.add_rounds(rounds)

    def show_note(self, text: str) -> None:
        self._note.setText(text)

    def finish(self, reason: FinishReason) -> None:
        """Writes the figures below the finished reply."""
        self._note.setText(" · ".join(part for part in (*_figures(self._stats), ENDINGS[reason]) if part))
        self._note.setToolTip(
            "tokens per round = emitted / rounds; accepted = accepted / judged candidates;\n"
            "tokens per second: decoding only, the prompt is read before"
        )
        self._copy.setVisible(bool(self.view.text()))

    def take_theme(self, theme: Theme) -> None:
        self._copy.setIcon(icon("copy", theme.muted))
        self.view.take_theme(theme)

    @Slot()
    def _copy_text(self) -> None:
        QGuiApplication.clipboard().setText(self.view.text())


def _figures(stats: Statistics) -> list[str]:
    if not stats.num_rounds:
        return []
    figures = [f"{stats.num_emitted} tokens", f"{stats.tokens_per_second or 0:.1f} tokens/s"]
    if stats.acceptance_rate is not None:
        figures += [
            f"{stats.tokens_per_round:.2f} tokens/round",
            f"{100 * stats.acceptance_rate:.0f} % accepted",
        ]
    return figures
