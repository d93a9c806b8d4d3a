"""A model's reply: its text with every token's mark, growing round by round."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QMimeData, QPoint, Qt, Signal, Slot
from PySide6.QtGui import (
    QMouseEvent,
    QResizeEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextEdit, QWidget

from app.records import Kind, Round
from app.spans import Span, spans
from app.ui.span_index import SpanIndex
from app.ui.theme import LINE_HEIGHT, Theme, body_font, token_format


class ReplyView(QTextEdit):
    """A read-only text as high as its contents, with a layout of its own: a long chat is never re-laid as one.

    Reports the token under the pointer; copying leaves the ghosts out.
    """

    hovered = Signal(object, QPoint)  # Span | None, global position

    def __init__(self, theme: Theme, ghosts: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("reply")
        self.setAccessibleName("Reply")
        self.setReadOnly(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setUndoRedoEnabled(False)
        self.setFont(body_font())
        self.document().setDocumentMargin(0)
        self.viewport().setMouseTracking(True)
        self._theme = theme
        self._ghosts = ghosts
        self._rounds: list[Round] = []
        self._index = SpanIndex()
        self._formats: dict[Kind, QTextCharFormat] = {}
        self.document().documentLayout().documentSizeChanged.connect(self._fit_height)
        self._clear()

    def add_rounds(self, rounds: Iterable[Round]) -> None:
        """Appends the tokens of some rounds; only the last paragraph is laid out again."""
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        for each in rounds:
            if self._ghosts == "latest" and self._rounds:
                self._fold_ghosts(cursor, self._rounds[-1])
            self._rounds.append(each)
            self._append(cursor, (span for span in spans(each) if self._shows(span)))
        cursor.endEditBlock()

    def show_ghosts(self, ghosts: str) -> None:
        """ "keep" shows every rejected draft, "latest" the last round's only, "hide" none."""
        self._ghosts = ghosts
        self._redraw()

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._redraw()

    def text(self) -> str:
        """The reply itself, without ghosts."""
        return "".join(each.text for each in self._rounds)

    def span_at(self, position: QPoint) -> Span | None:
        """The token drawn at a point of the viewport."""
        hit = self.document().documentLayout().hitTest(position.toPointF(), Qt.HitTestAccuracy.ExactHit)
        return self._index.at(hit) if hit >= 0 else None

    def _clear(self) -> None:
        self._index = SpanIndex()
        self._formats = {kind: token_format(mark) for kind, mark in self._theme.marks.items()}
        self.document().clear()
        block = QTextBlockFormat()
        block.setLineHeight(LINE_HEIGHT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        QTextCursor(self.document()).setBlockFormat(block)

    def _redraw(self) -> None:
        rounds, self._rounds = self._rounds, []
        self._clear()
        self.add_rounds(rounds)

    def _shows(self, span: Span) -> bool:
        return span.kind != "rejected" or self._ghosts != "hide"

    def _append(self, cursor: QTextCursor, added: Iterable[Span]) -> None:
        cursor.movePosition(QTextCursor.MoveOperation.End)
        for span in added:
            # A word's mark starts with the word: the gap shows where one token ends and the next begins.
            word = span.text.lstrip(" ")
            cursor.insertText(span.text[: len(span.text) - len(word)], self._formats["plain"])
            cursor.insertText(word, self._formats[span.kind])
            self._index.append(span, end=cursor.position())

    def _fold_ghosts(self, cursor: QTextCursor, latest: Round) -> None:
        """Takes the ghosts of the round before away, once it is no longer the latest."""
        if not latest.rejected:
            return
        start, taken = self._index.pop_round(latest.index)
        cursor.setPosition(start)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        self._append(cursor, (span for span in taken if span.kind != "rejected"))

    @Slot()
    def _fit_height(self) -> None:
        self.setFixedHeight(max(1, round(self.document().size().height() + 0.5)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_height()

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the transcript scrolls, not the reply in it

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        self.hovered.emit(self.span_at(event.position().toPoint()), event.globalPosition().toPoint())

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(None, QPoint())

    def createMimeDataFromSelection(self) -> QMimeData:
        data = QMimeData()
        data.setText(self._selected_text())
        return data

    def _selected_text(self) -> str:
        """The selection without ghosts, which are drawn in the text but are no part of it."""
        cursor = self.textCursor()
        start, end = cursor.selectionStart(), cursor.selectionEnd()
        copy = QTextDocument()
        QTextCursor(copy).insertFragment(cursor.selection())
        eraser = QTextCursor(copy)
        for first, last in reversed(list(self._index.ranges("rejected"))):
            if last > start and first < end:
                eraser.setPosition(max(first, start) - start)
                eraser.setPosition(min(last, end) - start, QTextCursor.MoveMode.KeepAnchor)
                eraser.removeSelectedText()
        return copy.toPlainText()
