"""Runs one command and turns whatever ends it into an exit status."""

from __future__ import annotations

import io
import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from app.cli.arguments import parse
from app.cli.terminal import visible
from app.errors import Cancelled, UserFacingError

FAILED = 1
STOPPED = 130  # 128 + SIGINT, as shells report it
NOBODY_READS = 141  # 128 + SIGPIPE


def main(arguments: Sequence[str]) -> int:
    """Runs the command in `arguments`. Raises SystemExit 2 when they are wrong, 0 for --help and --version."""
    options = parse(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an old terminal's encoding may lack what a model writes
    try:
        status = _run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        return NOBODY_READS
    return status


def _run(options: Namespace) -> int:
    try:
        return _command(options)
    except UserFacingError as error:
        _show_error(error, options.json)
        return FAILED
    except ImportError as error:
        remedy = "Install it again: `python3 packaging/dev.py setup`."
        _show_error(UserFacingError("A part of Tandem cannot be loaded.", str(error), remedy), options.json)
        return FAILED
    except (Cancelled, KeyboardInterrupt):
        _show_error(UserFacingError("Stopped."), options.json)
        return STOPPED


def _command(options: Namespace) -> int:
    if options.command == "doctor":
        from app.cli.doctor import doctor

        return doctor(options)
    if options.command == "models":
        from app.cli.models import models

        return models(options)
    from app.cli.say import say

    return say(options)


def _show_error(error: UserFacingError, as_json: bool) -> None:
    if as_json:
        parts = {"title": error.title, "detail": error.detail, "remedy": error.remedy}
        print(json.dumps({"error": parts}))
        return
    for part in (error.title, error.detail, error.remedy):
        if part:
            print(visible(part), file=sys.stderr)


def _drop_stdout() -> None:
    """Lets the interpreter's last flush go nowhere: the reader has left, which is no failure."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
