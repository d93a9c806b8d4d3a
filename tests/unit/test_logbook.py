"""The log and the crash report hold nothing private."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from app.logbook import crash_report, open_log, redact

TOKEN = "hf_" + "AbCdEfGh" * 4


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return open_log(tmp_path / "log")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"401 for {TOKEN}", TOKEN),
        ("Authorization: Bearer abcdefghij", "abcdefghij"),
        (f"no file {Path.home() / 'diary.txt'}", str(Path.home())),
        ("cannot encode 'Dear diary, today I met somebody I will not name'", "diary"),
    ],
)
def test_private_things_are_taken_out(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redact(text)


def test_ordinary_words_stay() -> None:
    assert redact("KeyError: 'layers' in 'config.json'") == "KeyError: 'layers' in 'config.json'"


def test_the_log_is_redacted_and_tells_what_the_program_did(log_file: Path) -> None:
    logging.getLogger("app.test").info("loaded a pair with %s", TOKEN)
    written = log_file.read_text(encoding="utf-8")
    assert "loaded a pair" in written and TOKEN not in written


def test_the_log_rotates(log_file: Path) -> None:
    logger = logging.getLogger("app.test")
    for _ in range(40):
        logger.info("x" * 100_000)
    files = sorted(log_file.parent.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size < 1_200_000 for file in files)


def test_a_crash_report_names_the_place_and_not_the_words() -> None:
    try:
        raise ValueError(f"bad token {TOKEN} in 'my very secret message to the model'")
    except ValueError as error:
        report = crash_report(type(error), error, error.__traceback__)
    assert "test_a_crash_report" in report and "ValueError" in report
    assert TOKEN not in report
    assert "secret message to the model" not in report.rpartition("ValueError")[2]
