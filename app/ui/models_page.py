"""The models page: a search with its filters, what was found, and beside it the model that is chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QTimer, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.errors import UserFacingError
from app.hub.entries import Glance, ModelEntry, Query
from app.ui.advice import Advice
from app.ui.message_bar import MessageBar
from app.ui.model_view import ModelView
from app.ui.rows import Row, RowView
from app.ui.theme import Theme, named
from app.words import count, size, tokens

PAUSE = 350  # milliseconds without a key after which the Hub is asked
QWIDGETSIZE_MAX = 16_777_215  # Qt's own word for no limit
BESIDE = 760  # pixels of width from which the model is shown beside the list
LIST_WIDTH, LIST_SHARE = 420, 0.4
HEAD = re.compile(r"(For|LMHead).*$")
"""What an architecture's name says of its task, which the search has chosen."""

SIZES: dict[str, tuple[int | None, int | None]] = {
    "Any size": (None, None),
    "Up to 1B": (None, 1_000_000_000),
    "1B to 4B": (1_000_000_000, 4_000_000_000),
    "4B to 9B": (4_000_000_000, 9_000_000_000),
    "9B to 20B": (9_000_000_000, 20_000_000_000),
    "From 20B": (20_000_000_000, None),
}
LICENCES = {
    "Any licence": "",
    "Apache 2.0": "apache-2.0",
    "MIT": "mit",
    "Llama 3.2": "llama3.2",
    "Gemma": "gemma",
}
FORMATS = {"Any format": "any", "Safetensors": "safetensors", "GGUF": "gguf", "bitsandbytes": "bitsandbytes"}
GATES = {"Open and gated": "any", "Open": "open", "Gated": "gated"}
TASKS = {"Text generation": True, "Every task": False}
SORTS = {"Most downloads": "downloads", "Most likes": "likes", "Newest": "newest", "Smallest first": "size"}
FILTERS: dict[str, Mapping[str, Any]] = {
    "Task": TASKS,
    "Size": SIZES,
    "Licence": LICENCES,
    "Format": FORMATS,
    "Access": GATES,
    "Sort": SORTS,
}


class ModelsPage(QWidget):
    query_changed = Signal(object)  # Query
    sort_changed = Signal(bool)  # whether what is loaded is sorted by size
    more_requested = Signal()
    entry_chosen = Signal(str)
    entries_seen = Signal(object)  # tuple[str, ...]
    retry_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = QLineEdit()
        self._text.setPlaceholderText("A name, owner/name, or an address of the Hub")
        self._text.setAccessibleName("Search the Hub")
        self._text.setClearButtonEnabled(True)
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._pause.timeout.connect(self._ask)
        self._text.textEdited.connect(self._pause.start)
        self._text.returnPressed.connect(self._ask)
        self._filters = {name: self._make_filter(name, choices) for name, choices in FILTERS.items()}
        self.message_bar = MessageBar(theme)
        self.message_bar.action_requested.connect(self.retry_requested)
        self.view = RowView("Models found")
        self.view.chosen.connect(self.entry_chosen)
        self.view.seen.connect(self.entries_seen)
        self.view.rows.more_requested.connect(self.more_requested)
        self._state = named(QLabel(wordWrap=True), "muted")
        self._reset = QPushButton("Clear the filters")
        self._reset.clicked.connect(self._clear)
        self.model = ModelView(theme)
        self.model.back_requested.connect(self.show_list)
        self.advice = Advice()
        self._side = QStackedWidget()
        self._side.addWidget(self.advice)
        self._side.addWidget(self.model)
        self._asked = Query()
        self._alone = False
        self._lay_out()

    def _make_filter(self, name: str, choices: Mapping[str, Any]) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName(name)
        for words, value in choices.items():
            box.addItem(words, value)
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        box.activated.connect(self._ask)
        return box

    def _lay_out(self) -> None:
        filters = QHBoxLayout()
        filters.setSpacing(8)
        for box in self._filters.values():
            filters.addWidget(box)
        filters.addStretch(1)
        self._list = QWidget()
        found = QVBoxLayout(self._list)
        found.setContentsMargins(0, 0, 0, 0)
        found.setSpacing(8)
        found.addWidget(self.message_bar)
        found.addWidget(self.view, 1)
        foot = QHBoxLayout()
        foot.setContentsMargins(12, 0, 0, 8)
        foot.addWidget(self._state, 1)
        foot.addWidget(self._reset)
        found.addLayout(foot)
        self._body = QHBoxLayout()
        self._body.setSpacing(0)
        self._body.addWidget(self._list)
        self._body.addWidget(self._side, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 16, 0, 0)
        layout.setSpacing(12)
        head = QVBoxLayout()
        head.setContentsMargins(0, 0, 16, 0)
        head.setSpacing(8)
        head.addWidget(self._text)
        head.addLayout(filters)
        layout.addLayout(head)
        layout.addLayout(self._body, 1)
        self._reset.hide()

    @property
    def query(self) -> Query:
        values = {name: box.currentData() for name, box in self._filters.items()}
        smallest, largest = values["Size"]
        return Query(
            text=self._text.text(),
            writes_text=values["Task"],
            sort="downloads" if values["Sort"] == "size" else values["Sort"],
            licence=values["Licence"],
            format=values["Format"],
            gated=values["Access"],
            smallest=smallest,
            largest=largest,
        )

    @property
    def by_size(self) -> bool:
        return bool(self._filters["Sort"].currentData() == "size")

    def set_text(self, text: str) -> None:
        self._text.setText(text)
        self._ask()

    @Slot()
    def _ask(self) -> None:
        self._pause.stop()
        self._reset.setVisible(replace(self.query, text="") != Query())
        if self.query != self._asked:
            self._asked = self.query
            self.query_changed.emit(self._asked)
        self.sort_changed.emit(self.by_size)

    @Slot()
    def _clear(self) -> None:
        for box in self._filters.values():
            box.setCurrentIndex(0)
        self._ask()

    def show_searching(self) -> None:
        self.message_bar.hide()
        self.view.rows.set_rows(())
        self._state.setText("Searching …")

    def show_entries(self, entries: Sequence[ModelEntry], glances: dict[str, Glance], more: bool) -> None:
        """All that was found so far, in place of what was shown."""
        self.view.rows.set_rows([row_of(each, glances.get(each.repo)) for each in entries], more)
        self._count(more)

    def add_entries(self, entries: Sequence[ModelEntry], more: bool) -> None:
        self.view.rows.append([row_of(each, None) for each in entries], more)
        self._count(more)

    def show_again(self, entry: ModelEntry, glance: Glance | None) -> None:
        """A row of which more is known now."""
        self.view.rows.replace(row_of(entry, glance))

    def show_error(self, error: UserFacingError) -> None:
        self.message_bar.show_error(error, "Try again")
        self._state.setText("")

    def show_note(self, text: str) -> None:
        self._state.setText(text)

    def _count(self, more: bool) -> None:
        number = self.view.rows.rowCount()
        if number:
            self._state.setText(f"{number:,} models{', more below' if more else ''}")
        else:
            self._state.setText("Nothing was found. Search for less, or take a filter away.")

    def show_model(self, title: str) -> None:
        self.model.clear(title, self._alone)
        self._side.setCurrentWidget(self.model)
        self._place()

    @Slot()
    def show_list(self) -> None:
        self._side.setCurrentWidget(self.advice)
        self.view.selectionModel().clear()
        self._place()

    def _place(self) -> None:
        """One of the two where there is no room for both."""
        self._alone = self.width() < BESIDE
        chosen = self._side.currentWidget() is self.model
        self._list.setVisible(not self._alone or not chosen)
        self._side.setVisible(not self._alone or chosen)
        beside = min(LIST_WIDTH, int(LIST_SHARE * self.width()))
        self._list.setMaximumWidth(QWIDGETSIZE_MAX if self._alone else beside)
        self._list.setMinimumWidth(0 if self._alone else beside)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self.model.take_theme(theme)
        self.message_bar.take_theme(theme)


def row_of(entry: ModelEntry, glance: Glance | None) -> Row:
    """A search result in two lines; what a closer look found replaces what the search said."""
    on_disk = glance.bytes if glance and glance.bytes else entry.bytes
    length = glance.context if glance and glance.context else entry.context
    marks = ("here", entry.present), ("gated", entry.gated), ("private", entry.private)
    detail = [
        *(word for word, is_so in marks if is_so),
        count(entry.parameters) if entry.parameters else "",
        glance.obstacle.rstrip(".") if glance else "",
        f"{tokens(length)} context" if length else "",
        entry.licence or ("" if entry.present else "no licence"),
        f"{count(entry.downloads)} downloads" if entry.downloads else "",
        HEAD.sub("", entry.architecture or ""),
    ]
    tag = size(on_disk) if on_disk else ""
    return Row(entry.repo, entry.repo, " · ".join(filter(None, detail)), tag)
