"""The chat page: transcript, legend, errors and the prompt box, one above the other."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedLayout, QVBoxLayout, QWidget

from app.ui.legend import Legend
from app.ui.message_bar import MessageBar
from app.ui.prompt_box import PromptBox
from app.ui.theme import Theme, named
from app.ui.transcript import Transcript


class ChatPage(QWidget):
    """Shows an invitation until there is a message."""

    def __init__(self, theme: Theme, ghosts: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.transcript = Transcript(theme, ghosts)
        self.prompt_box = PromptBox(theme)
        self.message_bar = MessageBar(theme)
        self._legend = Legend(theme)
        self._invitation = Invitation()
        self._stack = QStackedLayout()
        self._stack.addWidget(self._invitation)
        self._stack.addWidget(self.transcript)
        foot = QWidget()
        foot.setMaximumWidth(self.transcript.column_width)
        foot_layout = QVBoxLayout(foot)
        foot_layout.setContentsMargins(0, 0, 0, 0)
        foot_layout.setSpacing(8)
        foot_layout.addWidget(self.message_bar)
        foot_layout.addWidget(self.prompt_box)
        foot_layout.addWidget(self._legend)
        centred = QHBoxLayout()
        centred.setContentsMargins(24, 0, 24, 12)
        centred.addStretch(1)
        centred.addWidget(foot, 100)
        centred.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addLayout(self._stack, 1)
        layout.addLayout(centred)

    def show_invitation(self, text: str) -> None:
        """The empty page's sentence: what to do, or what it is waiting for."""
        self._invitation.set_text(text)

    def show_conversation(self, there_is_one: bool) -> None:
        self._stack.setCurrentWidget(self.transcript if there_is_one else self._invitation)

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        for part in (self.transcript, self.prompt_box, self.message_bar, self._legend):
            part.take_theme(theme)


class Invitation(QWidget):
    """An empty chat says what to do next."""

    def __init__(self) -> None:
        super().__init__()
        heading = named(QLabel("Two models, one text"), "heading")
        heading.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._text = named(QLabel(wordWrap=True), "muted")
        self._text.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._text.setFixedWidth(440)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 24)
        layout.setSpacing(12)
        layout.addStretch(2)
        layout.addWidget(heading)
        layout.addWidget(self._text, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(3)

    def set_text(self, text: str) -> None:
        self._text.setText(text)
        # A wrapping label in a centred layout is given one line's height unless told otherwise.
        self._text.setFixedHeight(self._text.heightForWidth(self._text.width()))
