"""What a pair takes of the memory that is free: a bar for each device, and the same in words."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.ui.theme import Theme, named
from app.words import size

HEIGHT = 14


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a device's memory, in bytes."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Room:
    """One device: what would lie on it, and how much is free."""

    device: str
    parts: tuple[Part, ...]
    free: int
    fits: bool

    @property
    def taken(self) -> int:
        return sum(each.bytes for each in self.parts)

    @property
    def words(self) -> str:
        verdict = "Fits" if self.fits else "Does not fit"
        return f"{verdict}: {size(self.taken)} needed, {size(self.free)} free on {self.device}"

    @property
    def details(self) -> str:
        return "\n".join(f"{each.name}: {size(each.bytes)}" for each in self.parts)


class MemoryBar(QWidget):
    """Shows one device; hidden while nothing is known."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bar = Bar(theme)
        self._words = QLabel(wordWrap=True)
        self._parts = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "muted")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self._bar)
        layout.addWidget(self._words)
        layout.addWidget(self._parts)
        self.hide()

    def show_room(self, room: Room | None) -> None:
        self.setVisible(room is not None)
        if room is None:
            return
        self._bar.show_room(room)
        self._words.setText(room.words)
        self._words.setObjectName("" if room.fits else "errorTitle")
        self._words.style().polish(self._words)
        self._parts.setText(" · ".join(f"{each.name} {size(each.bytes)}" for each in room.parts))
        self.setToolTip(f"{room.details}\nSpare memory is kept for the machine itself.")
        self.setAccessibleName(room.words)

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._bar.take_theme(theme)


class Bar(QWidget):
    """Parts in shades of one ink, up to what is free; what goes beyond is hatched."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._room: Room | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(200, HEIGHT)

    def show_room(self, room: Room) -> None:
        self._room = room
        self.update()

    def take_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._room is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        whole = max(self._room.free, self._room.taken, 1)
        width = self.width() / whole
        painter.setBrush(QColor(self._theme.raised))
        painter.drawRect(QRectF(0, 0, self.width(), HEIGHT))
        left = 0.0
        for place, part in enumerate(self._room.parts):
            ink = QColor(self._theme.primary)
            ink.setAlphaF(max(0.3, 0.95 - 0.2 * place))
            painter.setBrush(ink)
            painter.drawRect(QRectF(left, 0, max(0.0, part.bytes * width - 1), HEIGHT))
            left += part.bytes * width
        if self._room.taken > self._room.free:
            limit = self._room.free * width
            painter.fillRect(
                QRectF(limit, 0, self.width() - limit, HEIGHT),
                QColor(self._theme.danger),
            )
