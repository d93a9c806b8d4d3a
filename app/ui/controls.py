"""A control for any setting, made from its declaration."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QSlider,
    QSpinBox,
    QWidget,
)

from app.settings import Setting, Value

SLIDER_STEPS_AT_MOST = 100


class SettingControl(QWidget):
    """Label and editor of one setting: a list for choices, a field for numbers, a slider where the range is small."""

    changed = Signal(str, object)  # key, value

    def __init__(self, setting: Setting, value: Value, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._setting = setting
        label = QLabel(setting.label)
        editor = self._make_editor(value)
        editor.setAccessibleName(setting.label)
        editor.setAccessibleDescription(setting.help)
        label.setBuddy(editor)
        self.setToolTip(setting.help)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        self._grid.addWidget(label, 0, 0)
        self._grid.addWidget(editor, 0, 1)
        if isinstance(editor, QSpinBox | QDoubleSpinBox) and self._steps <= SLIDER_STEPS_AT_MOST:
            self._grid.addWidget(self._make_slider(editor), 1, 0, 1, 2)

    @property
    def _steps(self) -> int:
        setting = self._setting
        if setting.minimum is None or setting.maximum is None or not setting.step:
            return SLIDER_STEPS_AT_MOST + 1
        return round((setting.maximum - setting.minimum) / setting.step)

    def _make_editor(self, value: Value) -> QWidget:
        if self._setting.choices:
            return self._make_list(str(value))
        return self._make_field(value)

    def _make_list(self, value: str) -> QComboBox:
        box = QComboBox()
        for choice in self._setting.choices:
            box.addItem(choice.replace("-", " ").capitalize(), choice)
        box.setCurrentIndex(box.findData(value))
        box.setMinimumWidth(136)
        box.activated.connect(self._choose)
        self._list = box
        return box

    def _make_field(self, value: Value) -> QSpinBox | QDoubleSpinBox:
        setting = self._setting
        field = QDoubleSpinBox() if isinstance(setting.default, float) else QSpinBox()
        low, high, step = setting.minimum or 0, setting.maximum or 0, setting.step or 1
        if isinstance(field, QDoubleSpinBox):
            field.setDecimals(2)
            field.setRange(low, high)
            field.setSingleStep(step)
            field.setValue(float(value))
        else:
            field.setRange(int(low), int(high))
            field.setSingleStep(int(step))
            field.setValue(int(value))
        field.setAlignment(Qt.AlignmentFlag.AlignRight)
        field.setFixedWidth(88 if high < 100_000 else 136)
        field.valueChanged.connect(self._report)
        return field

    def _make_slider(self, field: QSpinBox | QDoubleSpinBox) -> QSlider:
        slider = QSlider(Qt.Orientation.Horizontal)
        slider.setAccessibleName(f"{self._setting.label} slider")
        slider.setRange(0, self._steps)
        self._slider, self._field = slider, field
        self._follow_field()
        field.valueChanged.connect(self._follow_field)
        slider.valueChanged.connect(self._follow_slider)
        return slider

    @Slot(int)
    def _choose(self, index: int) -> None:
        self.changed.emit(self._setting.key, self._list.itemData(index))

    @Slot(int)
    @Slot(float)
    def _report(self, value: float) -> None:
        self.changed.emit(self._setting.key, round(value, 6) if isinstance(value, float) else value)

    @Slot()
    def _follow_field(self) -> None:
        step = self._setting.step or 1
        self._slider.blockSignals(True)
        self._slider.setValue(round((self._field.value() - (self._setting.minimum or 0)) / step))
        self._slider.blockSignals(False)

    @Slot(int)
    def _follow_slider(self, place: int) -> None:
        value = (self._setting.minimum or 0) + place * (self._setting.step or 1)
        if isinstance(self._field, QDoubleSpinBox):
            self._field.setValue(value)
        else:
            self._field.setValue(int(value))
