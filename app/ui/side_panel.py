"""The instrument panel beside the chat: draft, sampling, live figures."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app.engine.stats import Statistics
from app.settings import SETTINGS, Value, Values
from app.ui.controls import SettingControl, make_control
from app.ui.figures import LiveFigures
from app.ui.theme import Theme, named

WIDTH = 304

GROUPS = (
    (
        "Draft",
        ("drafter", "exit_layer", "schedule", "draft_length", "confidence_threshold", "rule", "ghosts"),
    ),
    ("Sampling", ("temperature", "top_p", "top_k", "seed", "max_new_tokens")),
)
MORE = (
    "More sampling",
    ("min_p", "typical_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
)
"""A group that few people need: folded."""


class SidePanel(QFrame):
    """Reports every change of a setting; knows nothing of what it means."""

    setting_changed = Signal(str, object)  # key, value

    def __init__(self, theme: Theme, values: Values, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidePanel")
        self.setAccessibleName("Side panel")
        self.setFixedWidth(WIDTH)
        self._figures = LiveFigures(theme)
        self._values = dict(values)
        self._controls: dict[str, SettingControl] = {}
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
            self._add_controls(layout, keys)
        layout.addSpacing(8)
        self._add_folded(layout, *MORE)
        layout.addWidget(self._note)
        layout.addStretch(1)
        self._show_what_matters()
        area = QScrollArea(widgetResizable=True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        area.verticalScrollBar().setAccessibleName("Scroll the side panel")
        area.setWidget(page)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(1, 0, 0, 0)
        outer.addWidget(area)

    def _add_controls(self, layout: QVBoxLayout, keys: Sequence[str]) -> None:
        for key in keys:
            control = make_control(SETTINGS[key], self._values[key])
            control.changed.connect(self._report)
            self._controls[key] = control
            layout.addWidget(control)

    def _add_folded(self, layout: QVBoxLayout, name: str, keys: Sequence[str]) -> None:
        """A group behind a button that opens it; open from the start where something in it is set."""
        self._fold = named(QToolButton(), "fold")
        self._fold.setText(name)
        self._fold.setCheckable(True)
        self._fold.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._folded = QWidget()
        inner = QVBoxLayout(self._folded)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(8)
        self._add_controls(inner, keys)
        layout.addWidget(self._fold)
        layout.addWidget(self._folded)
        self._fold.toggled.connect(self._unfold)
        self._fold.setChecked(any(self._values[key] != SETTINGS[key].default for key in keys))
        self._unfold(self._fold.isChecked())

    @Slot(bool)
    def _unfold(self, opened: bool) -> None:
        self._folded.setVisible(opened)
        self._fold.setArrowType(Qt.ArrowType.DownArrow if opened else Qt.ArrowType.RightArrow)

    def _show_what_matters(self) -> None:
        """Leaves out the settings that have no effect beside the others."""
        for key, control in self._controls.items():
            control.setVisible(SETTINGS[key].matters(self._values))

    def show_statistics(self, stats: Statistics) -> None:
        self._figures.show_statistics(stats)

    def set_running(self, running: bool) -> None:
        """While a reply is written its settings are fixed: tells so."""
        self._note.setVisible(running)

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._figures.take_theme(theme)

    @Slot(str, object)
    def _report(self, key: str, value: Value) -> None:
        self._values[key] = value
        self._show_what_matters()
        self.setting_changed.emit(key, value)
