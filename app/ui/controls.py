"""A control for any setting, made from its declaration."""

from __future__ import annotations

from PySide6.QtCore import QLocale, QSignalBlocker, Qt, Signal, Slot
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QGridLayout, QLabel, QSlider, QWidget

from app.settings import Setting, Value

MOST_SLIDER_STEPS = 200


class SettingControl(QWidget):
    """The label of a setting with its editor beside it; a subclass brings the editor."""

    changed = Signal(str, object)  # key, value

    def __init__(self, setting: Setting, editor: QWidget) -> None:
        super().__init__()
        self._setting = setting
        label = QLabel(setting.label)
        label.setBuddy(editor)
        editor.setAccessibleName(setting.label)
        editor.setAccessibleDescription(setting.help)
        self.setToolTip(f"{setting.help}\n{setting.allowed}")
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        self._grid.addWidget(label, 0, 0)
        self._grid.addWidget(editor, 0, 1)


class ChoiceControl(SettingControl):
    """A list of the choices."""

    def __init__(self, setting: Setting, value: Value) -> None:
        self._list = QComboBox()
        for choice in setting.choices:
            self._list.addItem(choice.replace("-", " ").capitalize(), choice)
        self._list.setCurrentIndex(self._list.findData(value))
        self._list.setMinimumWidth(136)
        super().__init__(setting, self._list)
        self._list.currentIndexChanged.connect(self._report)

    @Slot(int)
    def _report(self, index: int) -> None:
        self.changed.emit(self._setting.key, self._list.itemData(index))


class NumberControl(SettingControl):
    """A field, and below it a slider where the range has few enough steps to aim at one."""

    def __init__(self, setting: Setting, value: Value) -> None:
        self._whole = isinstance(setting.default, int)
        self._low, high = setting.minimum or 0, setting.maximum or 0
        self._step = setting.step or 1
        self._field = QDoubleSpinBox()
        self._field.setLocale(QLocale.c())  # a point in numbers, as in the terminal and the settings file
        self._field.setDecimals(0 if self._whole else 2)
        self._field.setRange(self._low, high)
        self._field.setSingleStep(self._step)
        if setting.off == setting.minimum:
            self._field.setSpecialValueText("Off")
        self._field.setValue(float(value))
        self._field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._field.setFixedWidth(136 if high >= 1e6 else 88)
        super().__init__(setting, self._field)
        self._slider = QSlider(Qt.Orientation.Horizontal, self)
        steps = (high - self._low) / self._step
        self._slider.setRange(0, round(steps))
        self._slider.setAccessibleName(f"{setting.label} slider")
        self._slider.setVisible(steps <= MOST_SLIDER_STEPS)
        self._grid.addWidget(self._slider, 1, 0, 1, 2)
        self._place_slider(self._field.value())
        self._field.valueChanged.connect(self._report)
        self._slider.valueChanged.connect(self._take_place)

    @Slot(float)
    def _report(self, value: float) -> None:
        self._place_slider(value)
        self.changed.emit(self._setting.key, int(value) if self._whole else round(value, 6))

    @Slot(int)
    def _take_place(self, place: int) -> None:
        self._field.setValue(self._low + place * self._step)

    def _place_slider(self, value: float) -> None:
        with QSignalBlocker(self._slider):  # its steps are coarser than the field's and must not round it
            self._slider.setValue(round((value - self._low) / self._step))


def make_control(setting: Setting, value: Value) -> SettingControl:
    """The control that fits a setting with choices, or one with a number."""
    return ChoiceControl(setting, value) if setting.choices else NumberControl(setting, value)
