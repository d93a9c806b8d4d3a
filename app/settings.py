"""Every setting in one declaration: default, bounds, label. Window, terminal and file derive from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from app import records
from app.errors import UserFacingError
from app.records import DraftSettings, SamplingSettings

Value = float | int | str | bool
Values = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the type its default has. `choices` bound a text, `minimum` and `maximum` a number.

    `group` tells what it is about: a reply, the window, or the way to the Hub.

    `off` is the number that switches it off; "off" may be said for it. `only_with` names another setting and
    the choices of that one without which this one has no effect.
    """

    key: str
    default: Value
    label: str
    help: str
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()
    off: float | None = None
    only_with: tuple[str, tuple[str, ...]] | None = None
    group: Literal["reply", "window", "hub"] = "reply"

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
        if isinstance(self.default, str):
            if isinstance(value, str):
                return value.strip()
            raise self._refusal(value)
        return self._check_number(value)

    def matters(self, values: Values) -> bool:
        """Whether it has any effect beside the other settings' `values`."""
        return self.only_with is None or values[self.only_with[0]] in self.only_with[1]

    def _check_number(self, value: object) -> Value:
        if value == "off" and self.off is not None:
            value = self.off
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
        if self.choices:
            return ", ".join(self.choices)
        if isinstance(self.default, str):
            return "any text"
        off = "" if self.off is None else f", {self.off:.10g} is off"
        return f"{self.minimum:,.10g} to {self.maximum:,.10g}{off}"

    def _refusal(self, value: object) -> UserFacingError:
        return UserFacingError(f"{self.label} cannot be {value!r}.", "", f"Choose {self.allowed}.")


SETTINGS: dict[str, Setting] = {
    setting.key: setting
    for setting in (
        Setting("temperature", 0.7, "Temperature", "0 always takes the likeliest token; higher varies more.", 0.0, 2.0, 0.05),
        Setting("top_p", 1.0, "Top-p", "Samples from the likeliest tokens that make up this share.", 0.01, 1.0, 0.01, off=1),
        Setting("top_k", 0, "Top-k", "Samples from this many of the likeliest tokens.", 0, 1000, 1, off=0),
        Setting("min_p", 0.0, "Min-p", "Leaves out what is less likely than this share of the likeliest token.", 0.0, 1.0, 0.01, off=0),
        Setting("typical_p", 1.0, "Typical-p", "Samples from the tokens about as surprising as the text on average that make up this share.", 0.01, 1.0, 0.01, off=1),
        Setting("repetition_penalty", 1.0, "Repetition penalty", "Divides the scores of tokens that prompt or reply hold already.", 0.5, 2.0, 0.05, off=1),
        Setting("presence_penalty", 0.0, "Presence penalty", "Taken off the score of every token that the reply holds already.", -2.0, 2.0, 0.1, off=0),
        Setting("frequency_penalty", 0.0, "Frequency penalty", "Taken off a token's score for each time that the reply holds it.", -2.0, 2.0, 0.1, off=0),
        Setting("seed", 0, "Seed", "The same seed, settings and prompt give the same reply.", 0, 2**31 - 1, 1),
        Setting("max_new_tokens", 512, "Longest reply", "Where a reply is cut, in tokens.", 1, 32768, 1),
        Setting("drafter", "assistant", "Drafter", "Who proposes tokens: the assistant model, the text so far, the target's first layers, text and assistant together, or nobody.", choices=get_args(records.Drafter)),
        Setting("draft_length", 3, "Draft length", "Tokens drafted per round: where the heuristic begins, the most under confidence. 0 is plain generation.", 0, 16, 1, only_with=("schedule", ("constant", "heuristic", "confidence"))),
        Setting("schedule", "constant", "Schedule", "Constant; longer after success and shorter after a rejection; until the drafter is unsure; or automatic: the length that is measured to be fastest, 0 included.", choices=get_args(records.Schedule)),
        Setting("confidence_threshold", 0.4, "Confidence", "A draft ends behind the first token that its drafter thought less likely than this.", 0.0, 1.0, 0.05, off=0, only_with=("schedule", ("confidence",))),
        Setting("exit_layer", 0, "Exit layer", "How many of the target's layers draft; 0 takes a third of them.", 0, 200, 1, only_with=("drafter", ("early-exit",))),
        Setting("rule", "auto", "Rule", "How a candidate is judged; auto takes the exact rule that accepts most.", choices=get_args(records.Rule)),
        Setting("ghosts", "keep", "Rejected drafts", "Keep them in the text, show the latest round's only, or hide them.", choices=("keep", "latest", "hide"), group="window"),
        Setting("side_panel", True, "Side panel", "Shows the settings and the live figures beside the chat.", group="window"),
        Setting("models_folder", "", "Models folder", "Where downloads go; empty is the cache that all Hugging Face tools share.", group="hub"),
        Setting("endpoint", "", "Hub address", "Of a mirror; empty is HF_ENDPOINT or huggingface.co.", group="hub"),
        Setting("proxy", "", "Proxy", "Such as http://proxy.example:3128; empty is the system's.", group="hub"),
        Setting("certificates", "", "Certificates", "A PEM file of a network that puts its own certificate in between; empty is the system's.", group="hub"),
        Setting("offline", False, "Offline", "Nothing is asked of the network; what is on disk works.", group="hub"),
    )
}  # fmt: skip


def defaults() -> dict[str, Value]:
    return {key: setting.default for key, setting in SETTINGS.items()}


def sampling_settings(values: Values) -> SamplingSettings:
    return SamplingSettings(**_fields_of(SamplingSettings, values))


def draft_settings(values: Values) -> DraftSettings:
    return DraftSettings(**_fields_of(DraftSettings, values))


def _fields_of(record: type[Any], values: Values) -> dict[str, Any]:
    """The values of the settings that `record` has fields for."""
    return {field.name: values[field.name] for field in fields(record) if field.name in SETTINGS}


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
