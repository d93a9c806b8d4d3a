"""What to download for this machine: a few pairs, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.models.finder import Recommendation
from app.ui.theme import named
from app.words import size


class Advice(QFrame):
    """The models page before a model is chosen."""

    chosen = Signal(object)  # Recommendation

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        page = named(QWidget(), "page")
        self._layout = QVBoxLayout(page)
        self._layout.setContentsMargins(24, 24, 24, 24)
        self._layout.setSpacing(12)
        self._layout.addWidget(named(QLabel("For this machine", wordWrap=True), "title"))
        self._words = named(QLabel(wordWrap=True), "muted")
        self._layout.addWidget(self._words)
        self._cards: list[QWidget] = []
        self._layout.addStretch(1)
        area = QScrollArea(widgetResizable=True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.verticalScrollBar().setAccessibleName("Scroll the advice")
        area.setWidget(page)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)
        self.show_pairs((), frozenset(), "")

    def show_pairs(self, pairs: Sequence[Recommendation], present: frozenset[str], nothing: str) -> None:
        """`nothing` is said where there are none."""
        for card in self._cards:
            card.deleteLater()
        self._cards = [self._make_card(each, present) for each in pairs]
        for place, card in enumerate(self._cards):
            self._layout.insertWidget(2 + place, card)
        told = "Pairs that are known to work together and fit the memory that is free now."
        self._words.setText(told if pairs else nothing)

    def _make_card(self, pair: Recommendation, present: frozenset[str]) -> QWidget:
        card = named(QFrame(), "adviceCard")
        layout = QVBoxLayout(card)
        layout.setContentsMargins(16, 12, 16, 12)
        layout.setSpacing(6)
        names = [each.repo.rpartition("/")[2] for each in (pair.target, pair.assistant)]
        layout.addWidget(named(QLabel("  +  ".join(names), wordWrap=True), "figure"))
        reason = QLabel(pair.reason, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        layout.addWidget(reason)
        here = {pair.target.repo, pair.assistant.repo} <= present
        button = QPushButton("Use this pair" if here else f"Download both, {size(pair.download)}")
        button.setProperty("pair", pair)
        button.clicked.connect(self._choose)
        row = QHBoxLayout()
        row.addWidget(button)
        row.addStretch(1)
        layout.addLayout(row)
        return card

    @Slot()
    def _choose(self) -> None:
        self.chosen.emit(self.sender().property("pair"))
