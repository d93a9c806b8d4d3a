"""Every setting in one declaration: default, bounds, label. Window, terminal and file derive from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from app import records
from app.errors import UserFacingError
from app.records import DraftSettings, SamplingSettings

Value = float | int | str | bool
Values = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the type its default has. `choices` bound a text, `minimum` and `maximum` a number."""

    key: str
    default: Value
    label: str
    help: str
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()

    def check(self, value: object) -> Value:
        """`value` as this setting's type. Raises UserFacingError when it is of another kind or out of bounds."""
        if isinstance(self.default, bool) or isinstance(value, bool):
            if isinstance(value, bool) and isinstance(self.default, bool):
                return value
            raise self._refusal(value)
        if self.choices:
            if value in self.choices:
                return str(value)
            raise self._refusal(value)
        return self._check_number(value)

    def _check_number(self, value: object) -> Value:
        if not isinstance(value, int | float | str) or self.minimum is None or self.maximum is None:
            raise self._refusal(value)
        try:
            number = float(value)
        except ValueError:
            raise self._refusal(value) from None
        whole = isinstance(self.default, int)
        if not self.minimum <= number <= self.maximum or (whole and number != int(number)):
            raise self._refusal(value)
        return int(number) if whole else number

    @property
    def allowed(self) -> str:
        """What may be chosen, in words."""
        if isinstance(self.default, bool):
            return "on or off"
        return ", ".join(self.choices) if self.choices else f"{self.minimum:,.10g} to {self.maximum:,.10g}"

    def _refusal(self, value: object) -> UserFacingError:
        return UserFacingError(f"{self.label} cannot be {value!r}.", "", f"Choose {self.allowed}.")


SETTINGS: dict[str, Setting] = {
    setting.key: setting
    for setting in (
        Setting("temperature", 0.7, "Temperature", "0 always takes the likeliest token; higher varies more.", 0.0, 2.0, 0.05),
        Setting("top_p", 1.0, "Top-p", "Samples from the likeliest tokens that make up this share; 1 is off.", 0.01, 1.0, 0.01),
        Setting("top_k", 0, "Top-k", "Samples from this many of the likeliest tokens; 0 is off.", 0, 1000, 1),
        Setting("seed", 0, "Seed", "The same seed, settings and prompt give the same reply.", 0, 2**31 - 1, 1),
        Setting("max_new_tokens", 512, "Longest reply", "Where a reply is cut, in tokens.", 1, 32768, 1),
        Setting("drafter", "assistant", "Drafter", "Who proposes tokens: the assistant model, the text so far, or nobody.", choices=get_args(records.Drafter)),
        Setting("draft_length", 3, "Draft length", "Tokens drafted per round; 0 is plain generation.", 0, 16, 1),
        Setting("schedule", "constant", "Schedule", "Constant, or longer after success and shorter after a rejection.", choices=get_args(records.Schedule)),
        Setting("rule", "auto", "Rule", "How a candidate is judged; auto takes the exact rule that accepts most.", choices=get_args(records.Rule)),
        Setting("ghosts", "keep", "Rejected drafts", "Keep them in the text, show the latest round's only, or hide them.", choices=("keep", "latest", "hide")),
        Setting("side_panel", True, "Side panel", "Shows the settings and the live figures beside the chat."),
    )
}  # fmt: skip


def defaults() -> dict[str, Value]:
    return {key: setting.default for key, setting in SETTINGS.items()}


def sampling_settings(values: Values) -> SamplingSettings:
    return SamplingSettings(**{key: values[key] for key in ("temperature", "top_k", "top_p", "seed")})  # type: ignore[arg-type]


def draft_settings(values: Values) -> DraftSettings:
    return DraftSettings(**{key: values[key] for key in ("drafter", "draft_length", "schedule", "rule")})  # type: ignore[arg-type]


class SettingsFile:
    """The person's settings as a JSON file, written at every change. What it cannot use falls back to the default."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.values = defaults() | _read(path)

    def set(self, key: str, value: object) -> None:
        """Checks and keeps a value. Raises UserFacingError when it is out of bounds."""
        self.values[key] = SETTINGS[key].check(value)
        unfinished = self._path.with_suffix(".new")
        unfinished.write_text(json.dumps(self.values, indent=2), encoding="utf-8")
        unfinished.replace(self._path)


def _read(path: Path) -> dict[str, Value]:
    try:
        stored: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    known = stored.items() if isinstance(stored, dict) else ()
    return {key: value for key, value in known if key in SETTINGS and _fits(SETTINGS[key], value)}


def _fits(setting: Setting, value: object) -> bool:
    try:
        setting.check(value)
    except UserFacingError:
        return False
    return True
