"""One of the two models of a pair: a list to choose from, and below it how the chosen one is held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QCheckBox, QComboBox, QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app import records
from app.records import Compute, ModelSpec, Weights
from app.ui.rows import Row, RowView
from app.ui.theme import named

WAYS: dict[Weights, str] = {
    "auto": "Automatic format",
    "float32": "float32",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "float64": "float64",
    "int8": "8 bits (bitsandbytes)",
    "nf4": "4 bits nf4 (bitsandbytes)",
    "fp4": "4 bits fp4 (bitsandbytes)",
}
assert set(WAYS) == set(get_args(records.Weights))
COMPUTES: dict[Compute, str] = {
    "auto": "Computes in the faster format",
    "float32": "Computes in float32",
    "bfloat16": "Computes in bfloat16",
    "float16": "Computes in float16",
}
assert set(COMPUTES) == set(get_args(records.Compute))


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to choose from; `why_not` greys it out."""

    value: str
    words: str
    why_not: str = ""


class Side(QFrame):
    chosen = Signal(str)  # the row's key
    held = Signal(str, object)  # a field of ModelSpec that says how it is held, and its value

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.list = RowView(f"{name} models")
        self._shown: str | None = None
        self.list.chosen.connect(self.chosen)
        self._weights = self._make_box(f"{name} weights", "weights")
        self._device = self._make_box(f"{name} device", "device")
        self._compute = self._make_box(f"{name} computing format", "compute")
        for value, words in COMPUTES.items():
            self._compute.addItem(words, value)
        self._double = QCheckBox("Quantise the scales too")
        self._double.setAccessibleName(f"{name}: quantise the scales too")
        self._double.setToolTip("Saves 0.4 bits a weight, and costs hardly any precision.")
        self._double.clicked.connect(self._report_double)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(named(QLabel(name), "section"))
        layout.addWidget(self.list, 1)
        for left, right in ((self._weights, self._device), (self._compute, self._double)):
            row = QHBoxLayout()
            row.setSpacing(8)
            row.addWidget(left, 1)
            row.addWidget(right, 1)
            layout.addLayout(row)

    def _make_box(self, name: str, field: str) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName(name)
        box.setProperty("field", field)
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        box.setMinimumContentsLength(12)
        box.activated.connect(self._report)
        return box

    def show_rows(self, rows: Sequence[Row], chosen: str) -> None:
        place = self.list.verticalScrollBar().value()
        self.list.rows.set_rows(rows)
        self.list.choose(chosen)
        if chosen == self._shown:
            self.list.verticalScrollBar().setValue(place)
        else:
            self.list.scrollTo(self.list.currentIndex())
        self._shown = chosen

    def show_held(self, spec: ModelSpec | None, weights: Sequence[Choice], devices: Sequence[Choice]) -> None:
        """How the model is held, out of what there is to choose; None hides the choice."""
        for box in (self._weights, self._device):
            box.setVisible(spec is not None)
        quantised = spec is not None and spec.weights in ("int8", "nf4", "fp4")
        self._compute.setVisible(quantised)
        self._double.setVisible(quantised and spec is not None and spec.weights != "int8")
        if spec is None:
            return
        for box, choices, value in (
            (self._weights, weights, spec.weights),
            (self._device, devices, spec.device),
        ):
            box.clear()
            for each in choices:
                box.addItem(each.words, each.value)
                _grey_out(box, each.why_not)
            box.setCurrentIndex(max(0, box.findData(value)))
        self._compute.setCurrentIndex(self._compute.findData(spec.compute))
        self._double.setChecked(spec.double_quantisation)

    @Slot(int)
    def _report(self, place: int) -> None:
        box = self.sender()
        if isinstance(box, QComboBox):
            self.held.emit(box.property("field"), box.itemData(place))

    @Slot(bool)
    def _report_double(self, wanted: bool) -> None:
        self.held.emit("double_quantisation", wanted)


def _grey_out(box: QComboBox, why_not: str) -> None:
    model = box.model()
    if why_not and isinstance(model, QStandardItemModel):
        item = model.item(box.count() - 1)
        item.setEnabled(False)
        item.setToolTip(why_not)
        item.setText(f"{item.text()}: {why_not[0].lower()}{why_not[1:].rstrip('.')}")
