"""The bar at the left edge that leads from page to page."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QButtonGroup, QFrame, QToolButton, QVBoxLayout, QWidget

from app.ui.theme import Theme, icon

Page = Literal["chat", "models", "pair", "downloads", "library", "connection"]

PAGES: dict[Page, tuple[str, str]] = {
    "chat": ("Chat", "Write with the pair that is loaded"),
    "models": ("Models", "Search the Hub"),
    "pair": ("Pair", "Choose target and assistant"),
    "downloads": ("Downloads", "What is being fetched"),
    "library": ("Library", "What is on this disk"),
    "connection": ("Hub", "Address, proxy, access token"),
}
WIDTH = 92


class Rail(QFrame):
    page_requested = Signal(str)  # Page

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("rail")
        self.setAccessibleName("Pages")
        self.setFixedWidth(WIDTH)
        self._buttons: dict[Page, QToolButton] = {}
        group = QButtonGroup(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.setSpacing(4)
        for number, (page, (name, words)) in enumerate(PAGES.items(), start=1):
            if page == "connection":
                layout.addStretch(1)
            button = self._make_button(name, f"{words} (Ctrl+{number})", f"Ctrl+{number}")
            button.setProperty("page", page)
            button.clicked.connect(self._ask)
            group.addButton(button)
            layout.addWidget(button)
            self._buttons[page] = button
        self.select("chat")
        self.take_theme(theme)

    def _make_button(self, name: str, words: str, key: str) -> QToolButton:
        button = QToolButton()
        button.setText(name)
        button.setCheckable(True)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        button.setIconSize(QSize(20, 20))
        button.setFixedSize(WIDTH - 16, 52)
        button.setToolTip(words)
        button.setAccessibleName(name)
        button.setShortcut(QKeySequence(key))
        return button

    def select(self, page: Page) -> None:
        self._buttons[page].setChecked(True)

    def show_count(self, downloads: int) -> None:
        """How many downloads are not at their end."""
        self._buttons["downloads"].setText(f"{downloads} left" if downloads else PAGES["downloads"][0])

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        for page, button in self._buttons.items():
            button.setIcon(icon(page, theme.text))

    @Slot()
    def _ask(self) -> None:
        self.page_requested.emit(self.sender().property("page"))
