"""The instrument panel beside the chat: draft, sampling, live figures."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from app.engine.stats import Statistics
from app.settings import SETTINGS, Values
from app.ui.controls import make_control
from app.ui.figures import LiveFigures
from app.ui.theme import Theme, named

WIDTH = 304

GROUPS = (
    ("Draft", ("drafter", "draft_length", "schedule", "rule", "ghosts")),
    ("Sampling", ("temperature", "top_p", "top_k", "seed", "max_new_tokens")),
)


class SidePanel(QFrame):
    """Reports every change of a setting; knows nothing of what it means."""

    setting_changed = Signal(str, object)  # key, value

    def __init__(self, theme: Theme, values: Values, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidePanel")
        self.setAccessibleName("Side panel")
        self.setFixedWidth(WIDTH)
        self._figures = LiveFigures(theme)
        self._note = named(QLabel("Changes apply to the next message.", wordWrap=True), "muted")
        self._note.hide()
        page = named(QWidget(), "page")
        layout = QVBoxLayout(page)
        layout.setContentsMargins(16, 16, 16, 16)
        layout.setSpacing(8)
        layout.addWidget(named(QLabel("Live"), "section"))
        layout.addWidget(self._figures)
        for name, keys in GROUPS:
            layout.addSpacing(16)
            layout.addWidget(named(QLabel(name), "section"))
            for key in keys:
                control = make_control(SETTINGS[key], values[key])
                control.changed.connect(self._report)
                layout.addWidget(control)
        layout.addWidget(self._note)
        layout.addStretch(1)
        area = QScrollArea(widgetResizable=True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        area.setWidget(page)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(1, 0, 0, 0)
        outer.addWidget(area)

    def show_statistics(self, stats: Statistics) -> None:
        self._figures.show_statistics(stats)

    def set_running(self, running: bool) -> None:
        """While a reply is written its settings are fixed: tells so."""
        self._note.setVisible(running)

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._figures.take_theme(theme)

    @Slot(str, object)
    def _report(self, key: str, value: object) -> None:
        self.setting_changed.emit(key, value)
