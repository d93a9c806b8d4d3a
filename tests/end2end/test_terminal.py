"""`tandem say` and `tandem doctor` as a person starts them: a process of its own, the real starter pair."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROMPT = "Name three rivers, and say where each of them ends."
TANDEM = sys.executable, "-m", "app"


@pytest.fixture
def environment(starter_home: Path) -> dict[str, str]:
    """One thread: the texts below are compared across processes, and the machine may be busy."""
    return {**os.environ, "TANDEM_HOME": str(starter_home), "OMP_NUM_THREADS": "1"}


def run(arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TANDEM, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        check=False,
        timeout=240,
    )


def say_json(environment: dict[str, str], *options: str) -> dict[str, Any]:
    ended = run(
        ["say", PROMPT, "--json", "--max-new-tokens", "24", "--quantization", "float32", *options],
        environment,
    )
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


@pytest.mark.starter
def test_assisted_and_plain_say_the_same(environment: dict[str, str]) -> None:
    """In float32, at places where the target is in no doubt: these are 24 tokens of a greedy reply."""
    assisted = say_json(environment)
    plain = say_json(environment, "--drafter", "none")
    assert assisted["text"] == plain["text"] and assisted["text"].strip()
    assert assisted["pair"]["assistant"] and plain["pair"]["assistant"] is None
    check_sums(assisted)
    check_sums(plain)
    assert assisted["stats"]["num_candidates"] > 0 and assisted["stats"]["num_rounds"] <= 24
    assert plain["stats"]["num_candidates"] == 0 and plain["stats"]["tokens_per_round"] == 1
    assert {each["next_kind"] for each in plain["rounds"]} == {"plain"}


def check_sums(answer: dict[str, Any]) -> None:
    rounds, stats = answer["rounds"], answer["stats"]
    emitted = sum(each["num_accepted"] + (each["next_token"] is not None) for each in rounds)
    assert answer["text"] == "".join(piece for each in rounds for piece in each["pieces"])
    assert (stats["num_rounds"], stats["num_emitted"]) == (len(rounds), emitted)
    assert stats["num_judged"] == sum(each["num_judged"] for each in rounds)
    assert stats["num_accepted"] == sum(each["num_accepted"] for each in rounds)
    assert stats["tokens_per_round"] == pytest.approx(emitted / len(rounds))
    assert stats["prefill_seconds"] > 0
    for each in rounds:
        assert each["num_accepted"] <= each["num_judged"] <= len(each["candidates"]) <= each["draft_length"]
        assert each["draft_seconds"] + each["verify_seconds"] <= each["seconds"]


@pytest.mark.starter
def test_a_pipe_gets_bare_text(environment: dict[str, str]) -> None:
    ended = run(["say", PROMPT, "--max-new-tokens", "8"], environment)
    assert ended.returncode == 0
    assert ended.stdout.strip() and "\x1b" not in ended.stdout + ended.stderr
    assert "tokens/s" in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.starter
@pytest.mark.skipif(sys.platform == "win32", reason="a console's Ctrl+C cannot be sent to one process")
def test_ctrl_c_keeps_the_text(environment: dict[str, str]) -> None:
    command = [*TANDEM, "say", "Tell a long story.", "--max-new-tokens", "2000"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as started:
        assert started.stdout is not None
        first = started.stdout.read(1)
        started.send_signal(signal.SIGINT)
        rest, notes = started.communicate(timeout=120)
    assert started.returncode == 130
    assert first + rest and b"Traceback" not in notes
    assert b"ended by stopped" in notes


@pytest.mark.starter
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no closed pipes of this kind")
def test_a_reader_that_leaves_is_no_failure(environment: dict[str, str]) -> None:
    command = [*TANDEM, "say", "Tell a long story.", "--max-new-tokens", "2000"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as started:
        assert started.stdout is not None and started.stderr is not None
        started.stdout.read(1)
        started.stdout.close()
        notes = started.stderr.read()
        started.wait(120)
    assert started.returncode == 141
    assert b"Traceback" not in notes and b"Broken" not in notes


def test_an_unknown_model_is_an_error_without_a_traceback(home: Path) -> None:
    ended = run(["say", "Hello", "--target", "/no/such/model", "--json"], dict(os.environ))
    assert (ended.returncode, ended.stderr) == (1, "")
    assert json.loads(ended.stdout)["error"]["title"] == "No model found at /no/such/model."


def test_doctor_in_json(home: Path) -> None:
    ended = run(["doctor", "--json"], dict(os.environ))
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    versions = {
        "Tandem",
        "Python",
        "Qt",
        "torch",
        "transformers",
        "accelerate",
        "bitsandbytes",
        "huggingface_hub",
    }
    assert set(found["versions"]) == versions
    assert found["devices"][0]["name"] == "cpu"
    formats = {each["name"]: each for each in found["formats"]}
    assert formats["float32"]["works"] and formats["bfloat16"]["works"]
    for each in formats.values():
        assert each["microseconds"] if each["works"] else each["detail"], "a speed, or a reason"
    assert found["starter"]["target_converted"] is False


def test_doctor_in_words_without_the_home_folder(home: Path, tmp_path: Path) -> None:
    """The home folder's name is somebody's."""
    ended = run(["doctor"], {**os.environ, "HOME": str(tmp_path), "USERPROFILE": str(tmp_path)})
    assert ended.returncode == 0, ended.stderr
    for word in ("torch", "Memory", "bfloat16", "8-bit", "4-bit", "GGUF", "Starter pair", "~"):
        assert word in ended.stdout
    assert str(tmp_path) not in ended.stdout
