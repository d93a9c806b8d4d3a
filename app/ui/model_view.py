"""A model's page: what it is, whether it fits, its files, its revisions, and what its author says of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import Qt, QUrl, Signal, Slot
from PySide6.QtGui import QTextCharFormat, QTextCursor, QTextDocument, QTextFormat
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QScrollArea,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

from app.hub.entries import ModelDetails
from app.records import Weights
from app.ui.memory_bar import MemoryBar, Room
from app.ui.message_bar import MessageBar
from app.ui.pair_side import WAYS
from app.ui.theme import Theme, named
from app.words import count, size

DIALECT = QTextDocument.MarkdownFeature.MarkdownDialectGitHub | QTextDocument.MarkdownFeature.MarkdownNoHTML
LOOKING = "Looking at its configuration and tokenizer …"
MOST_CARD = 40_000  # characters that are shown of a card


class ModelView(QFrame):
    """Shows one model of the Hub; emits what the person wants of it."""

    download_requested = Signal()
    use_requested = Signal(str)  # "target" or "assistant"
    revision_chosen = Signal(str)
    file_requested = Signal(str)  # a single GGUF file, by name
    way_chosen = Signal(str)  # Weights
    consent_requested = Signal(str)  # "code" or "pickle"
    back_requested = Signal()
    again_requested = Signal(str)  # a file to be downloaded once more
    retry_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelView")
        self.message_bar = MessageBar(theme)
        self.message_bar.action_requested.connect(self.retry_requested)
        self._back = QPushButton("Back to the list")
        self._back.clicked.connect(self.back_requested)
        self._title = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "title")
        self._title.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._facts = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "muted")
        self._verdict = QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self._busy = named(QLabel(LOOKING), "muted")
        self._download = named(QPushButton("Download"), "primary")
        self._download.clicked.connect(self.download_requested)
        self._as_target = QPushButton("Use as target")
        self._as_target.setProperty("role", "target")
        self._as_assistant = QPushButton("Use as assistant")
        self._as_assistant.setProperty("role", "assistant")
        for each in (self._as_target, self._as_assistant):
            each.clicked.connect(self._use)
        self._code = QCheckBox("Allow its program code …")
        self._pickle = QCheckBox("Allow pickle weights …")
        for box, kind in ((self._code, "code"), (self._pickle, "pickle")):
            box.setProperty("kind", kind)
            box.clicked.connect(self._ask_consent)
        self._way = QComboBox()
        self._way.setAccessibleName("Weights to reckon with")
        self._way.activated.connect(self._choose_way)
        self._memory = MemoryBar(theme)
        self._make_files()
        self._card = CardText()
        self._lay_out()
        self.clear("")

    def _make_files(self) -> None:
        self._revision = QComboBox()
        self._revision.setAccessibleName("Revision")
        self._revision.activated.connect(self._choose_revision)
        self._file = QComboBox()
        self._file.setAccessibleName("GGUF file")
        self._file.activated.connect(self._choose_file)
        self._again = QPushButton("Download a file again")
        self._again.setToolTip("Where one is suspected to be damaged")
        self._again.setMenu(QMenu(self._again))
        self._files = named(QLabel(textFormat=Qt.TextFormat.PlainText), "files")
        self._files.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._files.setWordWrap(True)
        for label in (self._title, self._facts, self._files):
            label.setMinimumWidth(1)  # a stranger's long name must not widen the page

    def _lay_out(self) -> None:
        page = named(QWidget(), "page")
        layout = QVBoxLayout(page)
        layout.setContentsMargins(24, 16, 24, 24)
        layout.setSpacing(8)
        layout.addWidget(self._back, 0, Qt.AlignmentFlag.AlignLeft)
        for each in (self._title, self._facts, self.message_bar, self._busy, self._verdict):
            layout.addWidget(each)
        layout.addWidget(self._code)
        layout.addWidget(self._pickle)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        for button in (self._download, self._as_target, self._as_assistant):
            buttons.addWidget(button)
        buttons.addStretch(1)
        layout.addLayout(buttons)
        self._memory_part = _section(layout, "Memory", self._way)
        layout.addWidget(self._memory)
        self._files_part = _section(layout, "Files", self._again, self._file, self._revision)
        layout.addWidget(self._files)
        self._card_part = _section(layout, "What its author says")
        layout.addWidget(self._card)
        layout.addStretch(1)
        area = QScrollArea(widgetResizable=True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.verticalScrollBar().setAccessibleName("Scroll the model's page")
        area.setWidget(page)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)

    def clear(self, title: str, alone: bool = False) -> None:
        """Before anything is known of the model; `alone` when the list is not beside it."""
        self._title.setText(title)
        self._back.setVisible(alone)
        self._facts.clear()
        self._verdict.hide()
        self.show_busy(LOOKING)
        self.message_bar.hide()
        for each in (self._download, self._as_target, self._as_assistant, self._code, self._pickle):
            each.hide()
        for part in (
            self._memory_part,
            self._files_part,
            self._card_part,
            self._files,
            self._card,
            self._file,
            self._again,
        ):
            part.hide()
        self._memory.show_room(None)

    def show_busy(self, words: str) -> None:
        self._busy.setText(words)
        self._busy.show()

    def show_details(
        self, found: ModelDetails, chosen: Sequence[str], context: int | None, revision: str
    ) -> None:
        """`chosen` are the names of the files that a download fetches."""
        entry = found.entry
        facts = [
            f"{count(entry.parameters)} weights" if entry.parameters else "",
            entry.architecture or "",
            f"{context:,} tokens of context" if context else "",
            entry.licence or "no licence told",
            "gated" if entry.gated else "",
            "private" if entry.private else "",
            f"{entry.downloads:,} downloads",
            f"changed {entry.updated}" if entry.updated else "",
        ]
        self._facts.setText(" · ".join(filter(None, facts)))
        names = set(chosen)
        lines = [
            f"{size(each.size):>10}   {each.name}"
            for each in sorted(found.files, key=lambda each: (each.name not in names, each.name))
            if each.name in names
        ]
        left_out = len(found.files) - len(lines)
        if left_out:
            lines.append(
                "1 other file is not needed." if left_out == 1 else f"{left_out} other files are not needed."
            )
        self._files.setText("\n".join(lines))
        self._revision.clear()
        self._revision.addItems(sorted(found.refs))
        if revision not in found.refs:
            self._revision.addItem(revision)
        self._revision.setCurrentText(revision)
        self._revision.setToolTip(f"Commit {found.commit}")
        self._files_part.show()
        self._files.show()

    def show_ggufs(self, names: Sequence[str], chosen: str) -> None:
        """The GGUF files to choose among."""
        self._file.clear()
        self._file.addItem("Choose a file …" if not chosen else "Its other weights", "")
        for name in names:
            self._file.addItem(name, name)
        self._file.setCurrentIndex(max(0, self._file.findData(chosen)))
        self._file.setVisible(bool(names))

    def show_verdict(self, words: str, bad: bool) -> None:
        self._busy.hide()
        self._verdict.setText(words)
        self._verdict.setVisible(bool(words))
        self._verdict.setObjectName("errorTitle" if bad else "")
        self._verdict.style().polish(self._verdict)

    def show_actions(self, download: str, present: bool, usable: bool) -> None:
        """`download` names the button and is empty where there is nothing to fetch."""
        self._download.setText(download)
        self._download.setVisible(bool(download))
        for each in (self._as_target, self._as_assistant):
            each.setVisible(usable)
            each.setToolTip("" if present else "Compare it with another model before it is downloaded")

    def show_again(self, names: Sequence[str]) -> None:
        """The files that can be downloaded once more."""
        menu = self._again.menu()
        menu.clear()
        for name in names:
            menu.addAction(name).triggered.connect(partial(self.again_requested.emit, name))
        self._again.setVisible(bool(names))

    def show_consent(self, code: bool | None, pickle: bool | None) -> None:
        """None where there is nothing to consent to."""
        for box, state in ((self._code, code), (self._pickle, pickle)):
            box.setVisible(state is not None)
            box.setChecked(bool(state))

    def show_ways(self, ways: Sequence[Weights], chosen: Weights) -> None:
        self._way.clear()
        for way in ways:
            self._way.addItem(WAYS[way], way)
        self._way.setCurrentIndex(max(0, self._way.findData(chosen)))
        self._memory_part.setVisible(bool(ways))

    def show_room(self, room: Room | None) -> None:
        self._memory.show_room(room)

    def show_card(self, text: str) -> None:
        self._card.show_card(text)
        self._card_part.setVisible(bool(text))
        self._card.setVisible(bool(text))

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._memory.take_theme(theme)
        self.message_bar.take_theme(theme)

    @Slot()
    def _use(self) -> None:
        self.use_requested.emit(self.sender().property("role"))

    @Slot(bool)
    def _ask_consent(self, wanted: bool) -> None:
        """The box shows what is so, not what was clicked."""
        box = self.sender()
        if isinstance(box, QCheckBox):
            box.setChecked(not wanted)
            self.consent_requested.emit(box.property("kind"))

    @Slot(int)
    def _choose_way(self, place: int) -> None:
        self.way_chosen.emit(self._way.itemData(place))

    @Slot(int)
    def _choose_revision(self, place: int) -> None:
        self.revision_chosen.emit(self._revision.itemText(place))

    @Slot(int)
    def _choose_file(self, place: int) -> None:
        self.file_requested.emit(self._file.itemData(place))


class CardText(QTextBrowser):
    """A stranger's Markdown: as tall as its text, with nothing loaded, nothing run and no link followed."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("card")
        self.setAccessibleName("Model card")
        self.setOpenLinks(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().documentLayout().documentSizeChanged.connect(self._grow)

    def show_card(self, text: str) -> None:
        self.document().setMarkdown(harmless(text), DIALECT)
        self._calm_headings()
        self._grow()

    def _calm_headings(self) -> None:
        """A stranger's headings are not larger than the page's own."""
        block = self.document().begin()
        while block.isValid():
            if block.blockFormat().headingLevel():
                cursor = QTextCursor(block)
                cursor.select(QTextCursor.SelectionType.BlockUnderCursor)
                size = QTextCharFormat()
                size.setProperty(QTextFormat.Property.FontSizeAdjustment, 0)
                cursor.mergeCharFormat(size)
            block = block.next()

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Nothing: neither a picture from the network nor a file of this disk."""
        return None

    @Slot()
    def _grow(self) -> None:
        self.setFixedHeight(int(self.document().size().height()) + 8)


def harmless(card: str) -> str:
    """Without the settings on top, pictures and HTML; cut where it gets long."""
    text = re.sub(r"\A---\n.*?\n---\n", "", card, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"<!--.*?-->|</?[A-Za-z][^<>]*>", "", text, flags=re.DOTALL)
    return text[:MOST_CARD].strip()


def _section(layout: QVBoxLayout, name: str, *editors: QWidget) -> QWidget:
    """A heading with controls at its right."""
    part = QWidget()
    row = QHBoxLayout(part)
    row.setContentsMargins(0, 16, 0, 0)
    row.addWidget(named(QLabel(name), "section"))
    row.addStretch(1)
    for each in editors:
        row.addWidget(each)
    layout.addWidget(part)
    return part
