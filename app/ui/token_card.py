"""The card that appears beside a hovered token: what both models thought of it."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QWidget

from app.records import Source
from app.spans import Span
from app.ui.theme import named

TITLES = {
    "accepted": "Accepted",
    "rejected": "Rejected",
    "recovered": "Recovered",
    "bonus": "Bonus",
    "plain": "Plain",
}
MEANINGS = {
    "accepted": "Drafted, and the target agreed.",
    "rejected": "Drafted, and the target refused it.",
    "recovered": "The target's own token after a rejection.",
    "bonus": "The target's extra token: the whole draft stood.",
    "plain": "The target's own token: nothing was drafted.",
}
SOURCES: dict[Source, str] = {
    "assistant": "the assistant",
    "lookup": "lookup",
    "early-exit": "the target's first layers",
}
NEVER_JUDGED = "Drafted behind the refused one: thrown away, never judged."


class TokenCard(QFrame):
    """A small window without a frame that follows the pointer and takes no focus."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.ToolTip | Qt.WindowType.FramelessWindowHint)
        self.setObjectName("tokenCard")
        self.setAccessibleName("Token details")
        self._title = named(QLabel(), "section")
        self._text = QLabel(textFormat=Qt.TextFormat.PlainText)
        self._meaning = QLabel(wordWrap=True)
        self._meaning.setMaximumWidth(280)
        self._target = named(QLabel(), "figure")
        self._assistant = named(QLabel(), "figure")
        self._source = named(QLabel(), "figure")
        self._where = named(QLabel(), "figure")
        layout = QGridLayout(self)
        layout.setContentsMargins(12, 8, 12, 8)
        layout.setHorizontalSpacing(16)
        layout.setVerticalSpacing(4)
        layout.addWidget(self._title, 0, 0)
        layout.addWidget(self._text, 0, 1, Qt.AlignmentFlag.AlignRight)
        layout.addWidget(self._meaning, 1, 0, 1, 2)
        for row, (name, value) in enumerate(
            (
                ("Target probability", self._target),
                ("Assistant probability", self._assistant),
                ("Drafted by", self._source),
                ("Place", self._where),
            ),
            start=2,
        ):
            layout.addWidget(named(QLabel(name), "muted"), row, 0)
            layout.addWidget(value, row, 1, Qt.AlignmentFlag.AlignRight)

    def show_span(self, span: Span | None, at: QPoint) -> None:
        """Shows a token's card below and right of a point of the screen; None hides it."""
        if span is None:
            self.hide()
            return
        self._title.setText(TITLES[span.kind])
        self._text.setText(f"{span.token.text!r}   id {span.token.id}")
        self._meaning.setText(MEANINGS[span.kind] if span.judged else NEVER_JUDGED)
        self._target.setText(_percent(span.token.target_probability, "not judged"))
        self._assistant.setText(_percent(span.token.assistant_probability, "none"))
        self._source.setText(SOURCES[span.token.source] if span.token.source else "nobody")
        self._where.setText(f"round {span.round.index + 1}, token {span.position + 1}")
        self.adjustSize()
        self.move(self._inside_screen(at + QPoint(12, 18)))
        self.show()

    def _inside_screen(self, corner: QPoint) -> QPoint:
        area = self.screen().availableGeometry()
        x = min(corner.x(), area.right() - self.width())
        y = corner.y() if corner.y() + self.height() <= area.bottom() else corner.y() - self.height() - 36
        return QPoint(max(area.left(), x), max(area.top(), y))


def _percent(probability: float | None, otherwise: str) -> str:
    if probability is None:
        return otherwise
    return f"{100 * probability:.1f} %" if probability >= 0.0005 else "below 0.05 %"
