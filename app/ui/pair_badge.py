"""The pair's name and what it is doing, always in sight."""

from __future__ import annotations

import html
from enum import Enum

from PySide6.QtCore import QSize, Signal, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QSizePolicy, QToolButton, QWidget

from app.records import PairSummary, Progress
from app.ui.theme import Theme, named


class PairState(Enum):
    LOADING = "Loading"
    ACTIVE = "Active"
    IDLE = "Idle"
    OFF = "Off"


class PairBadge(QWidget):
    """Names target and assistant; says Loading (how far), Active, Idle, or Off and why."""

    picker_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Model pair")
        self._names = named(QToolButton(), "pairNames")
        self._names.setText("Choose a pair")
        self._names.clicked.connect(self.picker_requested)
        self._dot = Dot(theme)
        self._state = named(QLabel(), "muted")
        self._state.setAccessibleName("Pair state")
        self._state.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._bar = QProgressBar(textVisible=False)
        self._bar.setAccessibleName("Loading progress")
        self._bar.setFixedSize(96, 6)
        self._bar.hide()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(10)
        layout.addWidget(self._names)
        layout.addWidget(self._bar)
        layout.addWidget(self._dot)
        layout.addWidget(self._state, 1)

    def show_pair(self, summary: PairSummary) -> None:
        self._names.setText(summary.target + (f"  +  {summary.assistant}" if summary.assistant else ""))
        lines = (*_held(summary), *summary.notes, "Click to choose another pair.")
        # Names come from strangers' files, and a tool tip that looks like rich text would be shown as such.
        self._names.setToolTip(f"<qt>{'<br>'.join(html.escape(line) for line in lines)}</qt>")
        self._names.setAccessibleDescription("\n".join(lines))

    def show_state(self, state: PairState, reason: str = "") -> None:
        self._bar.setVisible(state is PairState.LOADING)
        self._dot.show_state(state)
        text = f"{state.value} because {reason}" if state is PairState.OFF else state.value
        self._state.setText(text)
        self._state.setToolTip(text)

    def show_progress(self, progress: Progress) -> None:
        """How far the loading is; an unknown share moves to and fro."""
        self._bar.setRange(0, 0 if progress.share is None else 100)
        self._bar.setValue(round(100 * (progress.share or 0)))
        share = "" if progress.share is None else f"  {100 * progress.share:.0f} %"
        self._state.setText(f"{PairState.LOADING.value}: {progress.message}{share}")

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._dot.take_theme(theme)


def _held(summary: PairSummary) -> tuple[str, ...]:
    """Where both models are and how, as they really were loaded."""
    target = (
        f"{summary.target}: {summary.device.upper()}, {summary.weights}, {summary.decoder} decoder, "
        f"context of {summary.context_length:,} tokens"
    )
    if summary.assistant is None:
        return (target,)
    where = (summary.assistant_device or summary.device).upper()
    return (target, f"{summary.assistant}: {where}, {summary.assistant_weights or summary.weights}")


class Dot(QWidget):
    """Filled while drafting, a ring while idle, a bar when off: told apart by shape."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._state = PairState.LOADING
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(12, 12)

    def show_state(self, state: PairState) -> None:
        self._state = state
        self.setVisible(state is not PairState.LOADING)
        self.update()

    def take_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ink = QColor(self._theme.text)
        painter.setPen(ink)
        if self._state is PairState.OFF:
            painter.fillRect(1, 5, 10, 2, ink)
            return
        if self._state is PairState.ACTIVE:
            painter.setBrush(ink)
        painter.drawEllipse(2, 2, 8, 8)
