"""The pair picker: a target, an assistant with the verdict on both, how each is held, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import (
    QComboBox,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import records
from app.ui.memory_bar import MemoryBar, Room
from app.ui.message_bar import MessageBar
from app.ui.rows import Row, RowView
from app.ui.theme import Theme, named

WAYS = {
    "auto": "Automatic format",
    "float32": "float32",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "float64": "float64",
    "int8": "8 bits (bitsandbytes)",
    "nf4": "4 bits nf4 (bitsandbytes)",
    "fp4": "4 bits fp4 (bitsandbytes)",
}
assert set(WAYS) == set(get_args(records.Weights))


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to choose from; `why_not` greys it out."""

    value: str
    words: str
    why_not: str = ""


class Side(QFrame):
    """One of the two models: a list, and below it how it is held."""

    chosen = Signal(str)
    held = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.list = RowView(f"{name} models")
        self.list.chosen.connect(self.chosen)
        self.weights, self.device = QComboBox(), QComboBox()
        self.weights.setAccessibleName(f"{name} weights")
        self.device.setAccessibleName(f"{name} device")
        for box in (self.weights, self.device):
            box.activated.connect(self._report)
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.setHorizontalSpacing(16)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow("Weights", self.weights)
        form.addRow("Device", self.device)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(named(QLabel(name), "section"))
        layout.addWidget(self.list, 1)
        layout.addLayout(form)

    def show_choices(self, weights: Sequence[Choice], devices: Sequence[Choice]) -> None:
        for box, choices in ((self.weights, weights), (self.device, devices)):
            kept = box.currentData()
            box.clear()
            for each in choices:
                box.addItem(each.words, each.value)
                _grey_out(box, each.why_not)
            box.setCurrentIndex(max(0, box.findData(kept)))

    @Slot()
    def _report(self) -> None:
        self.held.emit()


class PairPage(QWidget):
    target_chosen = Signal(str)
    assistant_chosen = Signal(str)
    ways_changed = Signal()
    load_requested = Signal()
    cancel_requested = Signal()
    download_requested = Signal(str)  # a repository
    add_requested = Signal(str)  # "folder" or "file"

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.target, self.assistant = Side("Target"), Side("Assistant")
        self.target.chosen.connect(self.target_chosen)
        self.assistant.chosen.connect(self.assistant_chosen)
        self.message_bar = MessageBar(theme)
        self._verdict = QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self._notes = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "muted")
        self._promise = QLabel(textFormat=Qt.TextFormat.PlainText)
        self._memory = MemoryBar(theme)
        self._load = named(QPushButton("Load this pair"), "primary")
        self._load.clicked.connect(self.load_requested)
        self._download = QPushButton()
        self._download.clicked.connect(self._ask_download)
        self._cancel = QPushButton("Cancel")
        self._cancel.clicked.connect(self.cancel_requested)
        self._add_folder = QPushButton("Add a folder …")
        self._add_file = QPushButton("Add a GGUF file …")
        for button, kind in ((self._add_folder, "folder"), (self._add_file, "file")):
            button.setProperty("kind", kind)
            button.clicked.connect(self._ask_add)
        for side in (self.target, self.assistant):
            side.held.connect(self.ways_changed)
        self._lay_out()
        self.show_verdict("Choose a target and an assistant.", (), False)
        self.show_actions(may_load=False, busy=False, download="")

    def _lay_out(self) -> None:
        sides = QHBoxLayout()
        sides.setSpacing(24)
        sides.addWidget(self.target, 1)
        sides.addWidget(self.assistant, 1)
        head = QHBoxLayout()
        head.addWidget(named(QLabel("Pair"), "title"))
        head.addStretch(1)
        head.addWidget(self._add_folder)
        head.addWidget(self._add_file)
        foot = QHBoxLayout()
        foot.setSpacing(8)
        foot.addWidget(self._promise, 1)
        for button in (self._cancel, self._download, self._load):
            foot.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 16, 24, 16)
        layout.setSpacing(12)
        layout.addLayout(head)
        layout.addWidget(self.message_bar)
        layout.addLayout(sides, 1)
        layout.addWidget(self._verdict)
        layout.addWidget(self._notes)
        layout.addWidget(self._memory)
        layout.addLayout(foot)

    def show_models(
        self, targets: Sequence[Row], assistants: Sequence[Row], target: str, assistant: str
    ) -> None:
        for side, rows, chosen in ((self.target, targets, target), (self.assistant, assistants, assistant)):
            place = side.list.verticalScrollBar().value()
            side.list.rows.set_rows(rows)
            side.list.choose(chosen)
            side.list.verticalScrollBar().setValue(place)

    def show_verdict(self, words: str, notes: Sequence[str], bad: bool) -> None:
        self._verdict.setText(words)
        self._verdict.setObjectName("errorTitle" if bad else "figure")
        self._verdict.style().polish(self._verdict)
        self._notes.setText("\n".join(notes))
        self._notes.setVisible(bool(notes))

    def show_promise(self, words: str, assumptions: str) -> None:
        """The expected speed, and on hover how it is reckoned."""
        self._promise.setText(words)
        self._promise.setToolTip(f"<qt>{assumptions}</qt>" if assumptions else "")

    def show_room(self, room: Room | None) -> None:
        self._memory.show_room(room)

    def show_actions(self, may_load: bool, busy: bool, download: str) -> None:
        """`download` is a repository that is not here yet."""
        self._load.setEnabled(may_load)
        self._cancel.setVisible(busy)
        self._download.setVisible(bool(download))
        self._download.setText(f"Download {download.rpartition('/')[2]}")
        self._download.setProperty("repo", download)

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._memory.take_theme(theme)
        self.message_bar.take_theme(theme)

    @Slot()
    def _ask_download(self) -> None:
        self.download_requested.emit(self._download.property("repo"))

    @Slot()
    def _ask_add(self) -> None:
        self.add_requested.emit(self.sender().property("kind"))


def _grey_out(box: QComboBox, why_not: str) -> None:
    model = box.model()
    if why_not and isinstance(model, QStandardItemModel):
        item = model.item(box.count() - 1)
        item.setEnabled(False)
        item.setToolTip(why_not)
        item.setText(f"{item.text()}: {why_not[0].lower()}{why_not[1:].rstrip('.')}")
