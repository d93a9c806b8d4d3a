"""Every setting checks itself, and a damaged settings file costs nothing but the damaged values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.errors import UserFacingError
from app.settings import SETTINGS, SettingsFile, defaults, draft_settings, sampling_settings


def test_every_default_passes_its_own_check() -> None:
    for setting in SETTINGS.values():
        assert setting.check(setting.default) == setting.default
        assert setting.label and setting.help and setting.allowed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.5),
        ("temperature", "warm"),
        ("temperature", float("nan")),
        ("draft_length", 2.5),
        ("draft_length", True),
        ("draft_length", None),
        ("drafter", "oracle"),
        ("side_panel", 1),
        ("max_new_tokens", 0),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(key: str, value: object) -> None:
    with pytest.raises(UserFacingError) as refusal:
        SETTINGS[key].check(value)
    assert SETTINGS[key].allowed in refusal.value.remedy


def test_numbers_in_text_are_taken() -> None:
    assert SETTINGS["temperature"].check("0.5") == 0.5
    assert SETTINGS["draft_length"].check("4") == 4


def test_values_outlive_the_program(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    SettingsFile(path).set("temperature", 1.2)
    assert SettingsFile(path).values["temperature"] == 1.2


@pytest.mark.parametrize(
    "damage", ["", "{", "[1, 2]", "null", '{"temperature": "hot", "draft_length": 5, "x": 1}']
)
def test_a_damaged_file_falls_back_value_by_value(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(damage)
    values = SettingsFile(path).values
    assert values["temperature"] == defaults()["temperature"]
    assert values["draft_length"] == (5 if "draft_length" in damage else defaults()["draft_length"])
    assert "x" not in values


def test_a_refused_value_leaves_file_and_values_alone(tmp_path: Path) -> None:
    settings = SettingsFile(tmp_path / "settings.json")
    settings.set("draft_length", 4)
    with pytest.raises(UserFacingError):
        settings.set("draft_length", 400)
    assert settings.values["draft_length"] == 4
    assert json.loads((tmp_path / "settings.json").read_text())["draft_length"] == 4


def test_the_values_make_a_request() -> None:
    values = defaults()
    assert sampling_settings(values).temperature == values["temperature"]
    assert draft_settings(values).draft_length == values["draft_length"]
