"""Which build of torch to take, and where from. The syntax is old, as in dev.py."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable

from machine import Refusal, loads

BUILDS = {
    "cpu": "the CPU build (about 200 MB to download)",
    "cuda": "the CUDA build for NVIDIA cards (about 2.5 GB to download)",
    "macos": "the one build there is for macOS (about 100 MB to download)",
}
# PyTorch's own indexes, for the builds that PyPI lacks: its wheels are CUDA for Linux, CPU for Windows.
INDEXES = {"cpu": "https://download.pytorch.org/whl/cpu", "cuda": "https://download.pytorch.org/whl/cu130"}


def has_nvidia(system: str) -> bool:
    driver = "nvcuda.dll" if system == "Windows" else "libcuda.so.1"
    return shutil.which("nvidia-smi") is not None or loads(driver)


def choose_torch(wish: str | None, before: str | None, system: str, nvidia: Callable[[str], bool]) -> str:
    """The build to take: what was asked for, else what is there already, else what suits the machine."""
    if wish not in (None, "cpu", "cuda"):
        raise Refusal(f"TANDEM_TORCH is {wish!r}; it can be cpu or cuda.")
    if system == "Darwin":
        return "macos"
    return wish or before or ("cuda" if nvidia(system) else "cpu")


def torch_words(build: str) -> str:
    return f"torch: {BUILDS[build]}.{alternative(build)}"


def alternative(build: str) -> str:
    """How to choose the other build, where there is one."""
    other = {"cpu": "cuda", "cuda": "cpu"}.get(build)
    if other is None:
        return ""
    return (
        f"\nFor {BUILDS[other]}: python3 packaging/dev.py setup --torch {other}, or set TANDEM_TORCH={other}."
    )


def build_of(version: str, system: str) -> str:
    """Which build a wheel is, by the local part of its version: 2.13.0+cpu, 2.13.0+cu130, or none."""
    local = version.partition("+")[2]
    if system == "Darwin":
        return "macos"
    if local:
        return "cuda" if local.startswith("cu") else local
    return "cuda" if system == "Linux" else "cpu"


def newest_torch(versions: Iterable[str], build: str, system: str, project: str) -> str | None:
    """The newest version of this build that pyproject.toml allows."""
    bounds = re.search(r'"torch>=([\d.]+),<([\d.]+)"', project)
    assert bounds, "pyproject.toml names torch as torch>=A,<B"
    lowest, limit = (numbers(bound) for bound in bounds.groups())
    fitting = [
        version
        for version in versions
        if build_of(version, system) == build and lowest <= numbers(version) < limit
    ]
    return max(fitting, key=numbers, default=None)


def numbers(version: str) -> tuple[int, ...]:
    """2.13.0+cpu as (2, 13, 0); a pre-release is lower than everything."""
    release = version.partition("+")[0]
    return tuple(map(int, release.split("."))) if re.fullmatch(r"[\d.]+", release) else ()


def find_torch(
    build: str, system: str, project: str, ask: Callable[[str | None], list[str]]
) -> tuple[str, str | None]:
    """A version of this build, and the index to take it from: None is pip's own configuration, asked first."""
    indexes = [None, *(index for name, index in INDEXES.items() if name == build)]
    for index in indexes:
        version = newest_torch(ask(index), build, system, project)
        if version:
            return version, index
    places = " or at ".join(index or "where it is configured to look" for index in indexes)
    raise Refusal(
        f"pip does not find torch {places}: {BUILDS[build]}. Check the network and pip's proxy settings, or "
        f"point PIP_FIND_LINKS at a folder that holds the wheel.{alternative(build)}"
    )
