"""Where a message is written: Enter sends, Shift+Enter breaks the line, Esc stops."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal, Slot
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QPushButton, QSizePolicy, QWidget

from app.ui.theme import Theme, body_font, icon, named

MOST_LINES = 8


class PromptBox(QFrame):
    """The editor with its one button: Send, or Stop while a reply is being written."""

    submitted = Signal(str)
    stop_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("promptFrame")
        self._theme = theme
        self._ready = False
        self._running = False
        self._editor = PromptEditor(self)
        self._button = named(QPushButton(self), "primary")
        self._button.setFixedSize(40, 36)
        self._button.setIconSize(QSize(20, 20))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(14, 8, 8, 8)
        layout.setSpacing(8)
        layout.addWidget(self._editor)
        layout.addWidget(self._button, 0, Qt.AlignmentFlag.AlignBottom)
        self._editor.send_pressed.connect(self._send)
        self._editor.focus_changed.connect(self._show_focus)
        self._editor.textChanged.connect(self._update_button)
        self._button.clicked.connect(self._press_button)
        self.setFocusProxy(self._editor)
        self._update_button()

    def set_state(self, *, ready: bool, running: bool) -> None:
        """`ready`: a message can be sent; `running`: a reply is being written and can be stopped."""
        self._ready, self._running = ready, running
        self._update_button()

    def set_text(self, text: str) -> None:
        self._editor.setPlainText(text)
        self._editor.moveCursor(self._editor.textCursor().MoveOperation.End)

    def text(self) -> str:
        return self._editor.toPlainText()

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._update_button()

    @Slot()
    def _press_button(self) -> None:
        if self._running:
            self.stop_requested.emit()
        else:
            self._send()

    @Slot()
    def _send(self) -> None:
        text = self.text().strip()
        if text and self._ready and not self._running:
            self._editor.clear()
            self.submitted.emit(text)

    @Slot()
    def _update_button(self) -> None:
        name = "Stop" if self._running else "Send"
        enabled = self._running or (self._ready and bool(self.text().strip()))
        ink = self._theme.on_primary if enabled else self._theme.control
        self._button.setEnabled(enabled)
        self._button.setIcon(icon(name.lower(), ink))
        self._button.setAccessibleName(name)
        self._button.setToolTip("Stop writing (Esc)" if self._running else "Send (Enter)")

    @Slot(bool)
    def _show_focus(self, focused: bool) -> None:
        self.setProperty("focused", focused)
        self.style().polish(self)


class PromptEditor(QPlainTextEdit):
    """A plain editor that grows with its text up to a few lines."""

    send_pressed = Signal()
    focus_changed = Signal(bool)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Message")
        self.setPlaceholderText("Message")
        self.setFont(body_font())
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().documentLayout().documentSizeChanged.connect(self._fit_height)
        self._fit_height()

    @Slot()
    def _fit_height(self) -> None:
        lines = min(MOST_LINES, max(1, int(self.document().size().height())))
        margins = 2 * int(self.document().documentMargin()) + 4
        self.setFixedHeight(max(36, lines * self.fontMetrics().lineSpacing() + margins))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.send_pressed.emit()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_height()
