"""The pair picker: a target, an assistant with the verdict on both, how each is held, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.ui.memory_bar import MemoryBar, Room
from app.ui.message_bar import MessageBar
from app.ui.pair_side import Side
from app.ui.theme import Theme, named

CONTEXTS = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


class PairPage(QWidget):
    target_chosen = Signal(str)  # the row's key
    assistant_chosen = Signal(str)
    target_held = Signal(str, object)  # a field of ModelSpec, and its value
    assistant_held = Signal(str, object)
    context_chosen = Signal(int)  # tokens
    load_requested = Signal()
    cancel_requested = Signal()
    download_requested = Signal()
    remedy_requested = Signal()
    add_requested = Signal(str)  # "folder" or "file"

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.target, self.assistant = Side("Target"), Side("Assistant")
        self.target.chosen.connect(self.target_chosen)
        self.target.held.connect(self.target_held)
        self.assistant.chosen.connect(self.assistant_chosen)
        self.assistant.held.connect(self.assistant_held)
        self.message_bar = MessageBar(theme)
        self._verdict = QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self._notes = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "muted")
        self._promise = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "muted")
        self._memory = (MemoryBar(theme), MemoryBar(theme))  # a bar for each device that something lies on
        self._remedy = QPushButton()
        self._remedy.clicked.connect(self.remedy_requested)
        self._context = QComboBox()
        self._context.setAccessibleName("Context")
        self._context.setToolTip("Tokens of conversation that memory must suffice for")
        for tokens in CONTEXTS:
            self._context.addItem(f"{tokens:,} tokens of context", tokens)
        self._context.activated.connect(self._choose_context)
        self._load = named(QPushButton("Load this pair"), "primary")
        self._load.clicked.connect(self.load_requested)
        self._download = named(QPushButton(), "primary")
        self._download.clicked.connect(self.download_requested)
        self._cancel = QPushButton("Cancel loading")
        self._cancel.clicked.connect(self.cancel_requested)
        self._lay_out()
        self.setFocusProxy(self.target.list)
        self.show_promise("", "")
        self.show_verdict("Choose a target and an assistant.", (), False)
        self.show_remedy("")
        self.show_actions("", may_load=False, busy=False, missing=())

    def _lay_out(self) -> None:
        sides = QHBoxLayout()
        sides.setSpacing(24)
        sides.addWidget(self.target, 1)
        sides.addWidget(self.assistant, 1)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(named(QLabel("Pair"), "title"))
        head.addStretch(1)
        for words, kind in (("Add a folder …", "folder"), ("Add a GGUF file …", "file")):
            button = QPushButton(words)
            button.setProperty("kind", kind)
            button.clicked.connect(self._ask_add)
            head.addWidget(button)
        foot = QHBoxLayout()
        foot.setSpacing(8)
        foot.addWidget(self._context)
        foot.addStretch(1)
        for button in (self._cancel, self._download, self._load):
            foot.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 16, 24, 16)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(self.message_bar)
        layout.addLayout(sides, 1)
        for each in (self._verdict, self._notes, self._promise, *self._memory):
            layout.addWidget(each)
        layout.addWidget(self._remedy, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addLayout(foot)

    def show_verdict(self, words: str, notes: Sequence[str], bad: bool) -> None:
        self._verdict.setText(words)
        self._verdict.setObjectName("errorTitle" if bad else "figure")
        self._verdict.style().polish(self._verdict)
        self._notes.setText("\n".join(notes))
        self._notes.setVisible(bool(notes))

    def show_promise(self, words: str, assumptions: str) -> None:
        """The expected speed, and how it is reckoned."""
        self._promise.setText(f"{words}. {assumptions}")
        self._promise.setVisible(bool(words))

    def show_rooms(self, rooms: Sequence[Room]) -> None:
        for bar, room in zip_longest(self._memory, rooms[: len(self._memory)]):
            bar.show_room(room)

    def show_remedy(self, words: str) -> None:
        """What would make it fit; empty where nothing has to."""
        self._remedy.setText(words)
        self._remedy.setVisible(bool(words))

    def show_context(self, tokens: int) -> None:
        if self._context.findData(tokens) < 0:  # a pair that was chosen in the terminal or in a file
            self._context.addItem(f"{tokens:,} tokens of context", tokens)
        self._context.setCurrentIndex(self._context.findData(tokens))

    def show_actions(self, loaded: str, may_load: bool, busy: bool, missing: Sequence[str]) -> None:
        """`missing` are the names of models to be downloaded first; `loaded` says that there is nothing to do."""
        self._load.setText(loaded or "Load this pair")
        self._load.setEnabled(may_load and not busy and not loaded)
        self._load.setVisible(not missing)
        self._cancel.setVisible(busy)
        self._download.setVisible(bool(missing))
        self._download.setText("Download both" if len(missing) > 1 else f"Download {''.join(missing)}")

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        for each in (*self._memory, self.message_bar):
            each.take_theme(theme)

    @Slot(int)
    def _choose_context(self, place: int) -> None:
        self.context_chosen.emit(self._context.itemData(place))

    @Slot()
    def _ask_add(self) -> None:
        self.add_requested.emit(self.sender().property("kind"))
