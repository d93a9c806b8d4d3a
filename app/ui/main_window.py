"""The window: a rail of pages, a header with the pair and the actions, and the side panel, a drawer when narrow."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QAction, QCloseEvent, QKeySequence, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QMainWindow,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.settings import Values
from app.ui.chat_page import ChatPage
from app.ui.connection_page import ConnectionPage
from app.ui.downloads_page import DownloadsPage
from app.ui.library_page import LibraryPage
from app.ui.models_page import ModelsPage
from app.ui.pair_badge import PairBadge
from app.ui.pair_page import PairPage
from app.ui.rail import Page, Rail
from app.ui.side_panel import WIDTH, SidePanel
from app.ui.theme import Theme, icon, named

DRAWER_BELOW = 1100
"""Pixels of window width below which the side panel lies over the chat instead of beside it."""


class MainWindow(QMainWindow):
    new_chat_requested = Signal()
    stop_requested = Signal()
    side_panel_toggled = Signal(bool)
    page_shown = Signal(str)  # Page
    painted = Signal()
    closing = Signal()

    def __init__(self, theme: Theme, values: Values) -> None:
        super().__init__()
        self.setWindowTitle("Tandem")
        self.resize(1280, 800)
        self.setMinimumSize(560, 420)
        self.badge = PairBadge(theme)
        self.chat_page = ChatPage(theme, str(values["ghosts"]))
        self.side_panel = SidePanel(theme, values)
        self.models_page = ModelsPage(theme)
        self.pair_page = PairPage(theme)
        self.downloads_page = DownloadsPage()
        self.library_page = LibraryPage(theme)
        self.connection_page = ConnectionPage(theme, values)
        self._rail = Rail(theme)
        self._rail.page_requested.connect(self.show_page)
        self.badge.picker_requested.connect(self._show_picker)
        self._panel_wanted = bool(values["side_panel"])
        self._make_actions()
        self._body = QWidget()
        self._body_layout = QHBoxLayout(self._body)
        self._body_layout.setContentsMargins(0, 0, 0, 0)
        self._body_layout.setSpacing(0)
        self._body_layout.addWidget(self.chat_page, 1)
        self._pages: dict[Page, QWidget] = {
            "chat": self._body,
            "models": self.models_page,
            "pair": self.pair_page,
            "downloads": self.downloads_page,
            "library": self.library_page,
            "connection": self.connection_page,
        }
        self._stack = QStackedWidget()
        for page in self._pages.values():
            self._stack.addWidget(page)
        self.setCentralWidget(self._lay_out())
        self._drawer = False
        self._place_panel()
        self.take_theme(theme)
        self.chat_page.prompt_box.setFocus()

    def _lay_out(self) -> QWidget:
        right = QVBoxLayout()
        right.setSpacing(0)
        right.addWidget(self._make_header())
        right.addWidget(self._stack, 1)
        central = QWidget()
        layout = QHBoxLayout(central)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._rail)
        layout.addLayout(right, 1)
        return central

    @Slot(str)
    def show_page(self, page: Page) -> None:
        self._rail.select(page)
        self._stack.setCurrentWidget(self._pages[page])
        self._panel.setEnabled(page == "chat")
        self._new_chat.setEnabled(page == "chat")
        self._lay_drawer()
        if self._pages[page].focusProxy() is not None:
            self._pages[page].setFocus()
        self.page_shown.emit(page)

    @Slot()
    def _show_picker(self) -> None:
        self.show_page("pair")

    def show_downloads(self, running: int) -> None:
        """How many downloads are not at their end, at the rail."""
        self._rail.show_count(running)

    def _make_actions(self) -> None:
        self._new_chat = QAction("New chat", self, shortcut=QKeySequence("Ctrl+N"))
        self._new_chat.setToolTip("New chat (Ctrl+N)")
        self._new_chat.triggered.connect(self.new_chat_requested)
        self._panel = QAction("Side panel", self, shortcut=QKeySequence("Ctrl+I"), checkable=True)
        self._panel.setToolTip("Settings and live figures (Ctrl+I)")
        self._panel.toggled.connect(self._toggle_panel)
        stop = QAction("Stop", self, shortcut=QKeySequence(Qt.Key.Key_Escape))
        stop.triggered.connect(self.stop_requested)
        for action in (self._new_chat, self._panel, stop):
            self.addAction(action)

    def _make_header(self) -> QFrame:
        header = named(QFrame(), "header")
        layout = QHBoxLayout(header)
        layout.setContentsMargins(16, 8, 8, 8)
        layout.setSpacing(4)
        layout.addWidget(self.badge, 1)
        for action in (self._new_chat, self._panel):
            button = QToolButton()
            button.setDefaultAction(action)
            button.setIconSize(QSize(20, 20))
            button.setAccessibleName(action.text())
            layout.addWidget(button)
        return header

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._new_chat.setIcon(icon("new-chat", theme.text))
        self._panel.setIcon(icon("panel", theme.text))
        for part in (
            self.badge,
            self.chat_page,
            self.side_panel,
            self.models_page,
            self.pair_page,
            self.library_page,
            self.connection_page,
            self._rail,
        ):
            part.take_theme(theme)

    @Slot(bool)
    def _toggle_panel(self, shown: bool) -> None:
        self.side_panel.setVisible(shown)
        self._lay_drawer()
        if not self._drawer:
            self._panel_wanted = shown
            self.side_panel_toggled.emit(shown)

    def _place_panel(self) -> None:
        """Beside the chat where there is room, else a drawer over its right edge, closed at first."""
        self._drawer = self.width() < DRAWER_BELOW
        if self._drawer:
            self._body_layout.removeWidget(self.side_panel)
            self.side_panel.setParent(self._body)
        else:
            self._body_layout.addWidget(self.side_panel)
        shown = self._panel_wanted and not self._drawer
        self.side_panel.setVisible(shown)
        self._panel.blockSignals(True)
        self._panel.setChecked(shown)
        self._panel.blockSignals(False)
        self._lay_drawer()

    def _lay_drawer(self) -> None:
        if self._drawer:
            self.side_panel.setGeometry(self._body.width() - WIDTH, 0, WIDTH, self._body.height())
            self.side_panel.raise_()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._drawer != (self.width() < DRAWER_BELOW):
            self._place_panel()
        self._lay_drawer()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        self.painted.emit()

    def closeEvent(self, event: QCloseEvent) -> None:
        self.hide()  # at once: ending the engine's job can take as long as one forward pass
        self.closing.emit()
        super().closeEvent(event)
