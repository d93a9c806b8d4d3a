"""Text in a terminal: marks for the kinds of tokens, one line of progress, and nothing that a model could steer."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

from app.records import Kind, Progress

# Colour and line are separate sequences, so that a terminal that knows no dotted underline keeps the colour.
MARKS: dict[Kind, str] = {
    "accepted": "\x1b[32m\x1b[4m",  # green, underlined
    "rejected": "\x1b[31m\x1b[9m",  # red, struck through
    "recovered": "\x1b[33m\x1b[4:4m",  # yellow, dotted
    "bonus": "\x1b[94m\x1b[4:5m",  # blue, dashed
    "plain": "",
}
RESET = "\x1b[0m"
ERASE_LINE = "\r\x1b[K"

# Control characters become visible: a reply is a stranger's text and must not move the cursor, set the
# title or answer in the person's name. Line feed and tab may stay.
_VISIBLE = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
_VISIBLE |= {0x7F: "␡"} | {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}


def visible(text: str) -> str:
    """`text` with every control character but line feed and tab replaced by a visible one."""
    return text.translate(_VISIBLE)


def mark(kind: Kind, text: str) -> str:
    """`text`, harmless, in the colour and with the line of its kind."""
    shown = visible(text)
    return f"{MARKS[kind]}{shown}{RESET}" if MARKS[kind] and shown else shown


def is_styled(stream: TextIO) -> bool:
    """Whether colours and lines may be written: to a terminal, unless NO_COLOR asks for none."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class ProgressLine:
    """What is going on, on one line of a terminal that is written over; silent elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._shown = ""

    def show(self, progress: Progress) -> None:
        share = "" if progress.share is None else f" {100 * progress.share:.0f} %"
        line = visible(progress.message + share)[: shutil.get_terminal_size().columns - 1]
        if self._live and line != self._shown:
            self._write(ERASE_LINE + line)
            self._shown = line

    def clear(self) -> None:
        if self._shown:
            self._write(ERASE_LINE)
            self._shown = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
