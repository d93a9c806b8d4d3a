"""The log file and crash reports: what the program did, never what was said."""

from __future__ import annotations

import logging
import platform
import re
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

from app import __version__

LARGEST = 1_000_000  # bytes per log file, of which three are kept

_SECRETS = re.compile(r"hf_[A-Za-z0-9]{8,}|(?i:(?:authorization|token)\s*[:=]\s*(?:bearer\s+)?|bearer\s+)\S+")
_LONG_QUOTES = re.compile(r"(['\"])(?:(?!\1).){24,}?\1")


def redact(text: str) -> str:
    """Text without access tokens, the home folder, and long quotations, which could be somebody's words."""
    text = _SECRETS.sub("[secret]", text)
    text = text.replace(str(Path.home()), "~")
    return _LONG_QUOTES.sub(r"\1[...]\1", text)


class _Redacting(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def open_log(folder: Path) -> Path:
    """Starts logging into `folder`/tandem.log, rotating, and returns that path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tandem.log"
    handler = RotatingFileHandler(path, maxBytes=LARGEST, backupCount=2, encoding="utf-8", delay=True)
    handler.setFormatter(_Redacting("%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("app").setLevel(logging.INFO)
    return path


def crash_report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    """What a developer needs: versions and where it happened, redacted."""
    where = "".join(traceback.format_exception(kind, error, trace))
    return redact(
        f"Tandem {__version__}, Python {platform.python_version()}, {platform.platform()}\n\n{where}"
    )
