"""A list of things with a title, a line of detail and a word at the right: models of the Hub, and of this disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
    QTimer,
    Signal,
    Slot,
)
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPalette, QResizeEvent
from PySide6.QtWidgets import QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

Index = QModelIndex | QPersistentModelIndex

MARGIN = 12
RESTS = 150  # milliseconds without scrolling after which rows count as seen


@dataclass(frozen=True, slots=True)
class Row:
    """`key` is what the list reports; `dimmed` is shown paler, and can still be chosen."""

    key: str
    title: str
    detail: str = ""
    tag: str = ""
    dimmed: bool = False


class Rows(QAbstractListModel):
    """Rows that come in portions; asks for more while there are any."""

    more_requested = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows: list[Row] = []
        self._places: dict[str, int] = {}
        self._more = False

    def set_rows(self, rows: Sequence[Row], more: bool = False) -> None:
        self.beginResetModel()
        self._rows, self._more = list(rows), more
        self._places = {each.key: place for place, each in enumerate(rows)}
        self.endResetModel()

    def append(self, rows: Sequence[Row], more: bool) -> None:
        self._more = more
        if not rows:
            return
        start = len(self._rows)
        self.beginInsertRows(QModelIndex(), start, start + len(rows) - 1)
        self._rows.extend(rows)
        self._places |= {each.key: start + place for place, each in enumerate(rows)}
        self.endInsertRows()

    def replace(self, row: Row) -> None:
        """Shows more of a row that is there; nothing happens where it is not."""
        place = self._places.get(row.key)
        if place is not None and self._rows[place] != row:
            self._rows[place] = row
            self.dataChanged.emit(self.index(place), self.index(place))

    def row(self, place: int) -> Row:
        return self._rows[place]

    def place(self, key: str) -> int | None:
        return self._places.get(key)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 (Qt's own signature)
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self._rows[index.row()]
        words = {
            Qt.ItemDataRole.DisplayRole: row.title,
            Qt.ItemDataRole.UserRole: row,
            Qt.ItemDataRole.AccessibleTextRole: ", ".join(filter(None, (row.title, row.tag, row.detail))),
        }
        return words.get(Qt.ItemDataRole(role))

    def canFetchMore(self, parent: Index) -> bool:
        return self._more and not parent.isValid()

    def fetchMore(self, parent: Index) -> None:
        self._more = False  # until the portion is there
        self.more_requested.emit()


class RowView(QListView):
    """Reports which row is chosen, and which ones have come to rest in view."""

    chosen = Signal(str)
    seen = Signal(object)  # tuple[str, ...]

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("rows")
        self.setAccessibleName(name)
        self.rows = Rows(self)
        self.setModel(self.rows)
        self.setItemDelegate(RowDelegate(self))
        self.setUniformItemSizes(True)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._rest = QTimer(self, singleShot=True, interval=RESTS)
        self._rest.timeout.connect(self._report_seen)
        for moved in (self.verticalScrollBar().valueChanged, self.rows.modelReset, self.rows.rowsInserted):
            moved.connect(self._await_rest)
        self.selectionModel().currentChanged.connect(self._report_chosen)

    def choose(self, key: str) -> None:
        """Marks a row without reporting it."""
        place = self.rows.place(key)
        if place is not None:
            self.selectionModel().blockSignals(True)
            self.setCurrentIndex(self.rows.index(place))
            self.selectionModel().blockSignals(False)
            self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.currentIndex().isValid():
            self.scrollTo(self.currentIndex())

    @Slot(QModelIndex, QModelIndex)
    def _report_chosen(self, current: QModelIndex, before: QModelIndex) -> None:
        if current.isValid():
            self.chosen.emit(self.rows.row(current.row()).key)

    @Slot()
    def _await_rest(self) -> None:
        self._rest.start()

    @Slot()
    def _report_seen(self) -> None:
        count = self.rows.rowCount()
        if not count or not self.isVisible():
            return
        first = self.indexAt(self.viewport().rect().topLeft()).row()
        last = self.indexAt(self.viewport().rect().bottomLeft()).row()
        places = range(max(0, first), count if last < 0 else last + 1)
        self.seen.emit(tuple(self.rows.row(place).key for place in places))


class RowDelegate(QStyledItemDelegate):
    """Two lines of text; the chosen row lies on a raised ground."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        line = QFontMetrics(option.font).height()
        return QSize(0, 2 * line + 2 * 8 + 2)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row: Row = index.data(Qt.ItemDataRole.UserRole)
        painter.save()
        palette: QPalette = option.palette
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(option.rect, palette.color(QPalette.ColorRole.AlternateBase))
            painter.fillRect(QRect(option.rect.x(), option.rect.y(), 3, option.rect.height()), palette.text())
        elif option.state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(option.rect, palette.color(QPalette.ColorRole.Window))
        box = option.rect.adjusted(MARGIN, 8, -MARGIN, -8)
        line = QFontMetrics(option.font).height()
        text = palette.color(QPalette.ColorRole.Text)
        pale = palette.color(QPalette.ColorRole.PlaceholderText)
        painter.setPen(pale)
        painter.setFont(option.font)
        used = QFontMetrics(option.font).horizontalAdvance(row.tag)
        painter.drawText(QRect(box.x(), box.y(), box.width(), line), Qt.AlignmentFlag.AlignRight, row.tag)
        below = QRect(box.x(), box.y() + line + 2, box.width(), line)
        painter.drawText(below, Qt.AlignmentFlag.AlignLeft, _cut(row.detail, option.font, box.width()))
        bold = QFont(option.font)
        bold.setWeight(QFont.Weight.DemiBold)
        painter.setFont(bold)
        painter.setPen(pale if row.dimmed else text)
        room = box.width() - used - (MARGIN if used else 0)
        painter.drawText(
            QRect(box.x(), box.y(), room, line), Qt.AlignmentFlag.AlignLeft, _cut(row.title, bold, room)
        )
        painter.restore()


def _cut(text: str, font: QFont, width: int) -> str:
    return QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, width)
