"""Colours, palettes and type. Colour belongs to the tokens; everything else is neutral."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from PySide6.QtCore import QObject, Qt, Signal, Slot
from PySide6.QtGui import QColor, QFont, QGuiApplication, QIcon, QPainter, QPalette, QPixmap, QTextCharFormat
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication, QWidget

from app.records import Kind
from app.resources import resource

Widget = TypeVar("Widget", bound=QWidget)

UNIT = 8
"""Spacing comes in halves and multiples of this many pixels."""
BODY_POINTS = 11.0
LINE_HEIGHT = 145  # percent


@dataclass(frozen=True)
class Mark:
    """How one kind of token is told apart: by colour, and by a line that works without colour."""

    tint: str | None
    ink: str | None
    line: QTextCharFormat.UnderlineStyle = QTextCharFormat.UnderlineStyle.NoUnderline
    line_colour: str | None = None
    struck: bool = False


@dataclass(frozen=True)
class Theme:
    """The colours of one appearance, as #rrggbb."""

    name: str
    window: str
    base: str
    raised: str
    text: str
    muted: str
    border: str
    control: str  # outlines of controls: at least 3:1 on the window
    primary: str
    on_primary: str
    focus: str
    selection: str
    danger: str
    marks: dict[Kind, Mark]


_Line = QTextCharFormat.UnderlineStyle

LIGHT = Theme(
    name="light",
    window="#f7f7f5",
    base="#ffffff",
    raised="#eceded",
    text="#1f2328",
    muted="#59616b",
    border="#dcdedb",
    control="#868d95",
    primary="#2a2f36",
    on_primary="#ffffff",
    focus="#2f6fd0",
    selection="#5f6872",
    danger="#b3261e",
    marks={
        "accepted": Mark("#d9f1de", None, _Line.SingleUnderline, "#2f8a4a"),
        "rejected": Mark(None, "#b8322a", struck=True),
        "recovered": Mark("#fbe8c2", None, _Line.DotLine, "#8f6200"),
        "bonus": Mark("#d8e7fb", None, _Line.DashUnderline, "#2b66c4"),
        "plain": Mark(None, None),
    },
)

DARK = Theme(
    name="dark",
    window="#1b1d20",
    base="#232629",
    raised="#2c3034",
    text="#e6e7e9",
    muted="#a6aeb8",
    border="#383d43",
    control="#78818b",
    primary="#e6e7e9",
    on_primary="#1b1d20",
    focus="#7fb0f5",
    selection="#9aa3ad",
    danger="#ff9385",
    marks={
        "accepted": Mark("#1d4029", None, _Line.SingleUnderline, "#5fc27e"),
        "rejected": Mark(None, "#ff8f7d", struck=True),
        "recovered": Mark("#4b3a12", None, _Line.DotLine, "#e2b552"),
        "bonus": Mark("#1d3658", None, _Line.DashUnderline, "#82b3f6"),
        "plain": Mark(None, None),
    },
)


def token_format(mark: Mark) -> QTextCharFormat:
    """The character format of a kind of token."""
    form = QTextCharFormat()
    if mark.tint:
        form.setBackground(QColor(mark.tint))
    if mark.ink:
        form.setForeground(QColor(mark.ink))
    if mark.line_colour:
        form.setUnderlineStyle(mark.line)
        form.setUnderlineColor(QColor(mark.line_colour))
    if mark.struck:
        form.setFontStrikeOut(True)
        form.setFontPointSize(BODY_POINTS - 1)
    return form


class Appearance(QObject):
    """Follows the system between light and dark, and tells the views when to take new colours."""

    changed = Signal(object)  # Theme

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._application = application
        self.theme = LIGHT
        hints = QGuiApplication.styleHints()
        hints.colorSchemeChanged.connect(self._follow)
        self._follow(hints.colorScheme())

    @Slot(Qt.ColorScheme)
    def _follow(self, scheme: Qt.ColorScheme) -> None:
        self.apply(DARK if scheme == Qt.ColorScheme.Dark else LIGHT)

    def apply(self, theme: Theme) -> None:
        self.theme = theme
        self._application.setStyle("Fusion")
        self._application.setPalette(make_palette(theme))
        self._application.setStyleSheet(style_sheet(theme))
        self.changed.emit(theme)


def make_palette(theme: Theme) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette()
    for colour_role, colour in {
        role.Window: theme.window,
        role.WindowText: theme.text,
        role.Base: theme.base,
        role.AlternateBase: theme.raised,
        role.Text: theme.text,
        role.Button: theme.base,
        role.ButtonText: theme.text,
        role.BrightText: theme.danger,
        role.PlaceholderText: theme.muted,
        role.ToolTipBase: theme.base,
        role.ToolTipText: theme.text,
        role.Highlight: theme.selection,
        role.HighlightedText: theme.window,
        role.Accent: theme.selection,
        role.Link: theme.focus,
        role.Mid: theme.border,
        role.Light: theme.raised,
    }.items():
        palette.setColor(colour_role, QColor(colour))
    for colour_role in (role.Text, role.WindowText, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, colour_role, QColor(theme.control))
    return palette


def style_sheet(theme: Theme) -> str:
    """What a palette cannot say: corners, outlines and the few named pieces of the window."""
    template = resource("themes/tandem.qss").read_text(encoding="utf-8")
    return re.sub(r"@(\w+)", lambda match: str(getattr(theme, match[1])), template)


def named(widget: Widget, name: str) -> Widget:
    """The widget under the name by which the style sheet knows it."""
    widget.setObjectName(name)
    return widget


def body_font() -> QFont:
    font = QFont(QGuiApplication.font())
    font.setPointSizeF(BODY_POINTS)
    return font


def icon(name: str, colour: str) -> QIcon:
    """An outline icon from resources/icons in the given colour."""
    source = resource(f"icons/{name}.svg").read_text(encoding="utf-8").replace("currentColor", colour)
    renderer = QSvgRenderer(source.encode())
    pixmap = QPixmap(48, 48)  # drawn large and scaled down, for screens with more pixels than points
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    renderer.render(painter)
    painter.end()
    return QIcon(pixmap)
