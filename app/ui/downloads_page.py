"""The downloads page: what is waiting, running, paused, failed and done."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.ui.theme import named
from app.words import size
from app.workers.downloads import Item

STATES = {"waiting": "Waiting", "running": "Running", "paused": "Paused", "failed": "Failed", "done": "Done"}
EMPTY = "Nothing is being downloaded. Search for a model, or take one that is recommended for this machine."


class DownloadsPage(QWidget):
    pause_requested = Signal(object)  # the item's key
    resume_requested = Signal(object)
    cancel_requested = Signal(object)
    search_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: dict[tuple[str, str], DownloadRow] = {}
        page = named(QWidget(), "page")
        self._layout = QVBoxLayout(page)
        self._layout.setContentsMargins(24, 16, 24, 24)
        self._layout.setSpacing(12)
        self._layout.addWidget(named(QLabel("Downloads"), "title"))
        self._empty = named(QLabel(EMPTY, wordWrap=True), "muted")
        self._search = QPushButton("Search models")
        self._search.clicked.connect(self.search_requested)
        self._layout.addWidget(self._empty)
        self._layout.addWidget(self._search, 0, Qt.AlignmentFlag.AlignLeft)
        self._layout.addStretch(1)
        area = QScrollArea(widgetResizable=True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.verticalScrollBar().setAccessibleName("Scroll the downloads")
        area.setWidget(page)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)

    @Slot(object)
    def show_items(self, items: Sequence[Item]) -> None:
        keys = {each.key for each in items}
        for key in set(self._rows) - keys:
            self._rows.pop(key).deleteLater()
        for each in items:
            if each.key not in self._rows:
                self._rows[each.key] = self._make_row(each)
            self._rows[each.key].show_item(each)
        self._empty.setVisible(not items)
        self._search.setVisible(not items)

    def _make_row(self, item: Item) -> DownloadRow:
        row = DownloadRow(item.key)
        row.pause_requested.connect(self.pause_requested)
        row.resume_requested.connect(self.resume_requested)
        row.cancel_requested.connect(self.cancel_requested)
        self._layout.insertWidget(self._layout.count() - 1, row)
        return row


class DownloadRow(QFrame):
    pause_requested = Signal(object)
    resume_requested = Signal(object)
    cancel_requested = Signal(object)

    def __init__(self, key: tuple[str, str]) -> None:
        super().__init__()
        self.setObjectName("downloadRow")
        self._key = key
        self._title = named(QLabel(key[0], textFormat=Qt.TextFormat.PlainText), "figure")
        self._state = named(QLabel(), "muted")
        self._bar = QProgressBar(textVisible=False, maximum=1000)
        self._bar.setFixedHeight(6)
        self._words = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "muted")
        self._error = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "errorTitle")
        self._halt, self._go, self._off = QPushButton("Pause"), QPushButton("Resume"), QPushButton("Cancel")
        self._halt.clicked.connect(self._pause)
        self._go.clicked.connect(self._resume)
        self._off.clicked.connect(self._cancel)
        head = QHBoxLayout()
        head.addWidget(self._title)
        head.addWidget(self._state)
        head.addStretch(1)
        for button in (self._halt, self._go, self._off):
            head.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(6)
        layout.addLayout(head)
        for each in (self._bar, self._words, self._error):
            layout.addWidget(each)

    def show_item(self, item: Item) -> None:
        self._state.setText(STATES[item.state])
        self._halt.setVisible(item.state in ("waiting", "running"))
        self._go.setVisible(item.state in ("paused", "failed"))
        self._go.setText("Try again" if item.state == "failed" else "Resume")
        self._off.setText("Remove from the list" if item.state == "done" else "Cancel")
        self._bar.setVisible(item.state != "done")
        done = item.progress.done if item.progress else 0
        self._bar.setValue(round(1000 * done / max(1, item.plan.size)))
        self._bar.setAccessibleName(f"Progress of {item.plan.repo}")
        self._words.setText(describe(item))
        self._error.setText(str(item.error) if item.error else "")
        self._error.setVisible(item.error is not None)

    @Slot()
    def _pause(self) -> None:
        self.pause_requested.emit(self._key)

    @Slot()
    def _resume(self) -> None:
        self.resume_requested.emit(self._key)

    @Slot()
    def _cancel(self) -> None:
        self.cancel_requested.emit(self._key)


def describe(item: Item) -> str:
    """How far it is, in words."""
    if item.state == "done":
        return f"{size(item.plan.size)}, checked and on this disk"
    if item.progress is None:
        files = len(item.plan.files)
        return f"{size(item.plan.size)} in {files} {'file' if files == 1 else 'files'}"
    now = item.progress
    parts = [f"{size(now.done)} of {size(now.size)}"]
    if now.file:
        parts.append(f"{now.file} {size(now.file_done)} of {size(now.file_size)}")
    if item.state == "running" and now.bytes_per_second:
        parts += [f"{size(int(now.bytes_per_second))}/s", _left((now.size - now.done) / now.bytes_per_second)]
    return " · ".join(parts)


def _left(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"
