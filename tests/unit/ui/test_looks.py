"""Contrast of every colour, names for screen readers, and no clipped text in a small window."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QAbstractButton, QAbstractSlider, QAbstractSpinBox, QComboBox, QLabel, QWidget

from app.ui.legend import Sample
from app.ui.theme import DARK, LIGHT, Appearance, Theme
from tests.helpers.fake_engine import PAIR
from tests.helpers.sample_rounds import BICYCLE
from tests.helpers.stage import SMALL, Stage

THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)


def luminance(colour: str) -> float:
    """WCAG 2.2 relative luminance."""
    parts = (QColor(colour).redF(), QColor(colour).greenF(), QColor(colour).blueF())
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@THEMES
def test_text_stands_out_by_four_and_a_half(theme: Theme) -> None:
    for ground in (theme.window, theme.base, theme.raised):
        assert contrast(theme.text, ground) >= 4.5
        assert contrast(theme.muted, ground) >= 4.5
    assert contrast(theme.danger, theme.base) >= 4.5
    assert contrast(theme.on_primary, theme.primary) >= 4.5
    assert contrast(theme.window, theme.selection) >= 4.5


@THEMES
def test_token_marks_stand_out(theme: Theme) -> None:
    for kind, mark in theme.marks.items():
        assert contrast(mark.ink or theme.text, mark.tint or theme.window) >= 4.5, kind
        if mark.line_colour:
            assert contrast(mark.line_colour, mark.tint or theme.window) >= 3, kind


@THEMES
def test_controls_and_focus_stand_out_by_three(theme: Theme) -> None:
    for ground in (theme.window, theme.base):
        assert contrast(theme.control, ground) >= 3
        assert contrast(theme.focus, ground) >= 3


@THEMES
def test_no_two_kinds_of_token_look_alike_without_colour(theme: Theme) -> None:
    shapes = [(mark.line, mark.struck) for mark in theme.marks.values()]
    assert len(set(shapes)) == len(shapes)


def test_every_control_has_a_name_of_its_own(stage: Stage) -> None:
    stage.engine.worker.loaded.emit(PAIR)
    kinds = (QAbstractButton, QAbstractSlider, QAbstractSpinBox, QComboBox)
    controls = [w for w in stage.window.findChildren(QWidget) if isinstance(w, kinds) and w.isVisible()]
    own = [w for w in controls if not w.objectName().startswith("qt_")]
    names = [w.accessibleName() or getattr(w, "text", str)() for w in own]
    assert len(own) > 10
    assert all(names), [w for w, name in zip(own, names, strict=True) if not name]
    assert len(set(names)) == len(names)
    assert not [name for name in names if name.startswith("Q")]


@pytest.mark.parametrize("points", [9, 14])
def test_no_label_is_clipped_in_a_small_window(stage: Stage, appearance: Appearance, points: int) -> None:
    font = stage.window.font()
    font.setPointSize(points)
    stage.window.setFont(font)
    stage.window.resize(SMALL)
    stage.engine.worker.loaded.emit(PAIR)
    stage.ask("How does a bicycle stay upright?")
    stage.answer(BICYCLE)
    stage.window._panel.setChecked(True)
    labels = [w for w in stage.window.findChildren(QLabel) if w.isVisible() and w.text()]
    for label in labels:
        needed = label.heightForWidth(label.width()) if label.wordWrap() else label.sizeHint().height()
        assert label.height() >= needed, label.text()
        if not label.wordWrap() and label.accessibleName() != "Pair state":
            assert label.width() >= label.sizeHint().width(), label.text()
    for sample in stage.window.findChildren(Sample):
        assert sample.width() >= sample.sizeHint().width()
