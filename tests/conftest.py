"""What every test starts from: no screen, no network, and a data folder of its own."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")  # before pytest-qt makes the application
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"  # nobody answers there; before huggingface_hub is imported
os.environ.pop("HF_HUB_OFFLINE", None)
os.environ.pop("HF_TOKEN", None)

# The same examples in every run, and no clock: a slow machine must not decide.
hypothesis.settings.register_profile("tandem", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("tandem")

HOME = os.environ.get("TANDEM_HOME")  # read before the tests get folders of their own


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder; no test reads or writes this person's own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("TANDEM_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def process() -> Iterator[None]:
    """Takes back what a program sets for its whole process: log handlers and the hooks for crashes."""
    root = logging.getLogger()
    handlers, level, hooks = list(root.handlers), root.level, (sys.excepthook, threading.excepthook)
    yield
    for handler in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    sys.excepthook, threading.excepthook = hooks


@pytest.fixture(scope="session")
def starter_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which the starter pair is converted once; for good where TANDEM_HOME names one."""
    return Path(HOME) if HOME else tmp_path_factory.mktemp("starter")
