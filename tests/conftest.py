"""What every test starts from: no screen, no network, and a data folder of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")  # before pytest-qt makes the application
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before huggingface_hub is imported


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder; no test reads or writes this person's own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("TANDEM_HOME", str(folder))
    return folder
