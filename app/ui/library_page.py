"""The library: which models are on this disk, how much of it they take, and where they live."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.hub.entries import StoredModel
from app.ui.message_bar import MessageBar
from app.ui.theme import Theme, named
from app.words import size

EMPTY = "No models are here yet. What other Hugging Face tools have downloaded would be listed too."


class LibraryPage(QWidget):
    use_requested = Signal(str, str)  # role, source
    delete_requested = Signal(str)  # repository
    forget_requested = Signal(str)  # a folder or file that was added
    repair_requested = Signal(str)  # repository
    add_requested = Signal(str)  # "folder" or "file"
    move_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        page = named(QWidget(), "page")
        self._layout = QVBoxLayout(page)
        self._layout.setContentsMargins(24, 16, 24, 24)
        self._layout.setSpacing(12)
        self.message_bar = MessageBar(theme)
        self._place = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "muted")
        self._place.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._layout.addLayout(self._make_head())
        self._layout.addWidget(self._place)
        self._layout.addWidget(self.message_bar)
        self._empty = named(QLabel(EMPTY, wordWrap=True), "muted")
        self._layout.addWidget(self._empty)
        self._rows: list[QWidget] = []
        self._layout.addStretch(1)
        area = QScrollArea(widgetResizable=True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.verticalScrollBar().setAccessibleName("Scroll the library")
        area.setWidget(page)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)

    def _make_head(self) -> QHBoxLayout:
        head = QHBoxLayout()
        head.addWidget(named(QLabel("Library"), "title"))
        head.addStretch(1)
        for words, kind in (("Add a folder …", "folder"), ("Add a GGUF file …", "file")):
            button = QPushButton(words)
            button.setProperty("kind", kind)
            button.clicked.connect(self._add)
            head.addWidget(button)
        move = QPushButton("Models folder …")
        move.clicked.connect(self.move_requested)
        head.addWidget(move)
        return head

    def show_models(
        self, stored: Sequence[StoredModel], added: Sequence[str], used: Collection[str], cache: Path
    ) -> None:
        """`used` are the sources of the models that are loaded now."""
        for row in self._rows:
            row.deleteLater()
        self._rows = [self._make_row(each, each.repo in used) for each in stored]
        self._rows += [self._make_added(each, each in used) for each in added]
        for place, row in enumerate(self._rows):
            self._layout.insertWidget(self._layout.count() - 1, row)
            row.setProperty("place", place)
        whole = sum(each.bytes for each in stored)
        self._place.setText(f"{len(stored)} models, {size(whole)}, in {cache}")
        self._empty.setVisible(not self._rows)

    def _make_row(self, model: StoredModel, in_use: bool) -> QWidget:
        state = "In use" if in_use else ("Incomplete" if model.missing else "")
        used = date.fromtimestamp(model.last_used).isoformat()
        names = ", ".join(model.refs) or "no branch"
        detail = f"{size(model.bytes)} · {model.commit[:8]} ({names}) · last used {used}"
        if model.missing:
            detail += f"\nMissing or damaged: {', '.join(model.missing[:3])}"
        actions = [] if model.missing else [("Use as target", "target"), ("Use as assistant", "assistant")]
        if model.missing:
            actions.append(("Download the rest", "repair"))
        actions.append(("Delete", "delete"))
        return self._make_frame(model.repo, model.repo, state, detail, actions, in_use)

    def _make_added(self, source: str, in_use: bool) -> QWidget:
        actions = [
            ("Use as target", "target"),
            ("Use as assistant", "assistant"),
            ("Take off the list", "forget"),
        ]
        state = "In use" if in_use else ""
        return self._make_frame(Path(source).name, source, state, source, actions, in_use)

    def _make_frame(
        self, title: str, source: str, state: str, detail: str, actions: list[tuple[str, str]], in_use: bool
    ) -> QWidget:
        frame = named(QFrame(), "downloadRow")
        row = QHBoxLayout(frame)
        row.setContentsMargins(16, 12, 16, 12)
        row.setSpacing(8)
        words = QVBoxLayout()
        words.setSpacing(2)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(named(QLabel(title, textFormat=Qt.TextFormat.PlainText), "figure"))
        head.addWidget(named(QLabel(state), "muted"))
        head.addStretch(1)
        words.addLayout(head)
        words.addWidget(named(QLabel(detail, wordWrap=True, textFormat=Qt.TextFormat.PlainText), "muted"))
        row.addLayout(words, 1)
        for name, action in actions:
            button = QPushButton(name)
            button.setProperty("action", action)
            button.setProperty("source", source)
            button.setAccessibleName(f"{name}: {title}")
            if action == "delete" and in_use:
                button.setEnabled(False)
                button.setToolTip("It is loaded. Load another pair first.")
            button.clicked.connect(self._act)
            row.addWidget(button)
        return frame

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self.message_bar.take_theme(theme)

    @Slot()
    def _add(self) -> None:
        self.add_requested.emit(self.sender().property("kind"))

    @Slot()
    def _act(self) -> None:
        action, source = self.sender().property("action"), self.sender().property("source")
        if action == "delete":
            self.delete_requested.emit(source)
        elif action == "forget":
            self.forget_requested.emit(source)
        elif action == "repair":
            self.repair_requested.emit(source)
        else:
            self.use_requested.emit(action, source)
