"""Where files are: those we ship, and those this person's copy of the program has made."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs


def resource(name: str) -> Path:
    """The path of a shipped file or folder below resources/, from source, an installed wheel or a frozen program.

    Raises FileNotFoundError when it is missing, which only a broken installation can cause.
    """
    root = Path(getattr(sys, "_MEIPASS", Path(__file__).parent.parent))
    path = root / "resources" / name
    if not path.exists():
        raise FileNotFoundError(path)
    return path


def data_folder() -> Path:
    """Where converted models, settings and the log live; TANDEM_HOME moves it. Created when missing."""
    chosen = os.environ.get("TANDEM_HOME")
    folder = Path(chosen) if chosen else Path(platformdirs.user_data_dir("Tandem", appauthor=False))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
