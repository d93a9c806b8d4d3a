"""The live figures of a reply: numbers with their units, bars for shares, the formula on hover."""

from __future__ import annotations

from PySide6.QtCore import QElapsedTimer, QRectF, QSize, Qt, QTimer, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.engine.stats import Statistics
from app.ui.theme import Theme, named

MILLISECONDS_PER_UPDATE = 250
"""Figures that change faster than four times a second cannot be read."""

ROWS = (
    (
        "Tokens per second",
        "tokens / seconds of decoding, since the reply began; reading the prompt is left out",
    ),
    ("Tokens per round", "tokens / verification rounds; plain generation makes 1.00"),
    ("Draft length", "candidates asked for in the latest round; a draft may end sooner"),
    ("Acceptance rate", "accepted / judged candidates; those behind a rejected one are not judged"),
    ("Reading the prompt", "seconds before the first round"),
)


class LiveFigures(QWidget):
    """Shows the latest statistics, at most four times a second."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pending: Statistics | None = None
        self._since_update = QElapsedTimer()
        self._later = QTimer(self, singleShot=True)
        self._later.timeout.connect(self._update)
        self._values = [named(QLabel("–"), "figure") for _ in ROWS]
        grid = QGridLayout()
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(0, 1)
        for row, ((name, formula), value) in enumerate(zip(ROWS, self._values, strict=True)):
            label = QLabel(name)
            label.setToolTip(formula)
            value.setToolTip(formula)
            value.setAccessibleName(name)
            value.setAccessibleDescription(formula)
            grid.addWidget(label, row, 0)
            grid.addWidget(value, row, 1, Qt.AlignmentFlag.AlignRight)
        self._sources = named(QLabel(), "muted")
        self._sources.setToolTip("The acceptance rate of each source of candidates")
        self._sources.hide()
        self._split = TimeSplit(theme)
        self._positions = PositionBars(theme)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addLayout(grid)
        layout.addWidget(self._sources)
        layout.addSpacing(4)
        layout.addWidget(self._split)
        layout.addSpacing(4)
        layout.addWidget(self._positions)

    def show_statistics(self, stats: Statistics) -> None:
        self._pending = stats
        if not self._since_update.isValid() or self._since_update.elapsed() >= MILLISECONDS_PER_UPDATE:
            self._update()
        elif not self._later.isActive():
            self._later.start(MILLISECONDS_PER_UPDATE - int(self._since_update.elapsed()))

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self._split.take_theme(theme)
        self._positions.take_theme(theme)

    @Slot()
    def _update(self) -> None:
        stats = self._pending
        if stats is None:
            return
        self._since_update.start()
        texts = (
            _number(stats.tokens_per_second, "{:.1f}"),
            _number(stats.tokens_per_round, "{:.2f}"),
            _number(stats.draft_length, "{:d}"),
            "–" if stats.acceptance_rate is None else f"{100 * stats.acceptance_rate:.0f} %",
            f"{stats.prefill_seconds:.2f} s" if stats.num_rounds else "–",
        )
        for label, text in zip(self._values, texts, strict=True):
            label.setText(text)
        self._sources.setText(_by_source(stats))
        self._sources.setVisible(len(stats.by_source) > 1)
        self._split.show_shares(stats.time_shares)
        self._positions.show_counts([(each.judged, each.accepted) for each in stats.per_position])


class TimeSplit(QWidget):
    """Where the decoding time went, as one bar: draft, verify, rest."""

    NAMES = ("draft", "verify", "rest")

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._shares = (0.0, 0.0, 0.0)
        self._theme = theme
        self._words = named(QLabel(), "muted")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(QLabel("Time"))
        layout.addSpacing(10)
        layout.addWidget(self._words)
        self.setToolTip(
            "Shares of the decoding time: drafting, the target's verification, and everything else"
        )
        self.setAccessibleName("Time split")
        self.show_shares(self._shares)

    def show_shares(self, shares: tuple[float, float, float]) -> None:
        self._shares = shares
        words = (f"{name} {100 * share:.0f} %" for name, share in zip(self.NAMES, shares, strict=True))
        text = "  ·  ".join(words) if any(shares) else "draft  ·  verify  ·  rest"
        self._words.setText(text)
        self.setAccessibleDescription(text)
        self.update()

    def take_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        bar = QRectF(0, self._words.y() - 12, self.width(), 8)
        painter.fillRect(bar, QColor(self._theme.raised))
        left = bar.left()
        colours = (self._theme.control, self._theme.text, self._theme.border)
        for share, colour in zip(self._shares, colours, strict=True):
            width = share * bar.width()
            painter.fillRect(QRectF(left, bar.top(), max(0.0, width - 1), bar.height()), QColor(colour))
            left += width


class PositionBars(QWidget):
    """Acceptance by place in the draft, one bar each: how far ahead the drafter can see."""

    HEIGHT = 56
    MOST = 16

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._counts: list[tuple[int, int]] = []
        self._theme = theme
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Acceptance by position")
        self.setToolTip(
            "Acceptance by place in the draft: accepted / judged at the 1st, 2nd, 3rd ... candidate"
        )

    def show_counts(self, counts: list[tuple[int, int]]) -> None:
        self._counts = counts[: self.MOST]
        rates = ", ".join(f"{100 * accepted / judged:.0f} %" for judged, accepted in self._counts if judged)
        self.setAccessibleDescription(rates or "no candidates yet")
        self.update()

    def take_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, self.HEIGHT + 3 * self.fontMetrics().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        line = self.fontMetrics().height()
        painter.setPen(QColor(self._theme.text))
        painter.drawText(0, self.fontMetrics().ascent(), "Acceptance by position")
        top, floor = line + 6, line + 6 + self.HEIGHT
        painter.setPen(QColor(self._theme.border))
        painter.drawLine(0, floor, self.width(), floor)
        slot = min(48.0, self.width() / max(1, len(self._counts)))
        for place, (judged, accepted) in enumerate(self._counts):
            if judged:
                self._draw_bar(
                    painter, QRectF(place * slot, top, slot - 4, self.HEIGHT), accepted / judged, place + 1
                )

    def _draw_bar(self, painter: QPainter, area: QRectF, rate: float, place: int) -> None:
        painter.fillRect(area, QColor(self._theme.raised))
        filled = QRectF(area.left(), area.bottom() - rate * area.height(), area.width(), rate * area.height())
        painter.fillRect(filled, QColor(self._theme.control))
        painter.setPen(QColor(self._theme.muted))
        below = QRectF(area.left() - 2, area.bottom() + 2, area.width() + 4, self.fontMetrics().height())
        painter.drawText(
            below, Qt.AlignmentFlag.AlignCenter, f"{100 * rate:.0f}" if area.width() >= 20 else str(place)
        )


def _by_source(stats: Statistics) -> str:
    return "  ·  ".join(
        f"{source} {100 * count.accepted / count.judged:.0f} % of {count.judged}"
        for source, count in stats.by_source.items()
        if count.judged
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
