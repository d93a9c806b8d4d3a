"""What the colours and lines mean, in one row."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QSize, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QTextCharFormat, QTextLayout
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app.records import Kind
from app.ui.theme import Theme, token_format
from app.ui.token_card import MEANINGS, TITLES


class Legend(QWidget):
    """One sample per kind of token, drawn with the very format the reply uses."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Legend of the token marks")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(16)
        self._samples = [Sample(kind, self) for kind in theme.marks]
        for sample in self._samples:
            layout.addWidget(sample)
        layout.addStretch(1)
        self.take_theme(theme)

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        for sample in self._samples:
            sample.take_theme(theme)


class Sample(QWidget):
    """The name of a kind of token, marked as such."""

    def __init__(self, kind: Kind, parent: QWidget) -> None:
        super().__init__(parent)
        self._kind = kind
        self._layout = QTextLayout(TITLES[kind].lower(), self.font())
        self._ink = QColor()
        self.setToolTip(MEANINGS[kind])
        self.setAccessibleName(f"{TITLES[kind]}: {MEANINGS[kind]}")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def take_theme(self, theme: Theme) -> None:
        form = token_format(theme.marks[self._kind])
        form.clearProperty(QTextCharFormat.Property.FontPointSize.value)
        whole = QTextLayout.FormatRange()
        whole.start, whole.length, whole.format = 0, len(self._layout.text()), form
        self._layout.setFormats([whole])
        self._layout.beginLayout()
        self._layout.createLine().setLineWidth(1000)
        self._layout.endLayout()
        self._ink = QColor(theme.muted)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        line = self._layout.lineAt(0)
        return QSize(round(line.naturalTextWidth() + 1), round(line.height() + 2))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self._ink)
        self._layout.draw(painter, QPointF(0, 1))
