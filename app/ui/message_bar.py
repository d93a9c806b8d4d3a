"""Errors in words: what happened, why, and what to do, with the remedy as a button where there is one."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from app.errors import UserFacingError
from app.ui.theme import Theme, icon, named


class MessageBar(QFrame):
    """Hidden until something is to be said; says one thing at a time."""

    action_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("messageBar")
        self._symbol = QLabel()
        self._title = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "errorTitle")
        self._body = QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self._body.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._action = QPushButton()
        self._close = QToolButton()
        self._close.setToolTip("Dismiss")
        self._close.setAccessibleName("Dismiss message")
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._title)
        words.addWidget(self._body)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 8, 8, 8)
        layout.setSpacing(12)
        layout.addWidget(self._symbol, 0, Qt.AlignmentFlag.AlignTop)
        layout.addLayout(words, 1)
        layout.addWidget(self._action, 0, Qt.AlignmentFlag.AlignVCenter)
        layout.addWidget(self._close, 0, Qt.AlignmentFlag.AlignTop)
        self._action.clicked.connect(self._act)
        self._close.clicked.connect(self.hide)
        self.take_theme(theme)
        self.hide()

    def show_error(self, error: UserFacingError, action: str = "") -> None:
        """Shows an error; `action` names the button that mends it, and without one there is no button."""
        self._title.setText(error.title)
        self._body.setText(" ".join(part for part in (error.detail, error.remedy) if part))
        self._body.setVisible(bool(self._body.text()))
        self._action.setText(action)
        self._action.setVisible(bool(action))
        self.setAccessibleName(f"Error: {error.title}")
        self.show()

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._symbol.setPixmap(icon("warning", theme.danger).pixmap(20, 20))
        self._close.setIcon(icon("close", theme.muted))

    @Slot()
    def _act(self) -> None:
        self.hide()
        self.action_requested.emit()
