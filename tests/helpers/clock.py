"""Time that passes with the forward passes of scripted models and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers.scripted import ScriptedModel


class Clock:
    """Takes the place of perf_counter in the decoding loop."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def charge(self, model: ScriptedModel, seconds: Callable[[int], float]) -> None:
        """Lets a forward pass of `model` over n tokens take seconds(n)."""

        def pass_time(width: int) -> None:
            self.now += seconds(width)

        model.before_forward = pass_time

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("decoding", "recording", "opening"):
            monkeypatch.setattr(f"app.engine.{module}.perf_counter", self)
