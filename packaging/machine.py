"""What the set-up needs of a machine, and how to say what is missing. The syntax is old, as in dev.py."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import sys
from collections.abc import Callable, Mapping

OLDEST, NEWEST = (3, 11), (3, 13)

# The shared libraries that Qt's wheel expects to find on Linux, and Debian's package of each.
QT_LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11.so.6": "libx11-6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libxkbcommon.so.0": "libxkbcommon0",
}
X11_LIBRARIES = {
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
WAYLAND_LIBRARIES = {
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
}


class Refusal(Exception):
    """Why it cannot go on and what to do about it; printed without a traceback."""


def check_python(
    version: tuple[int, ...], implementation: str, which: Callable[[str], str | None] = shutil.which
) -> None:
    if implementation == "CPython" and OLDEST <= version[:2] <= NEWEST:
        return
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    here = next((name for name in names if which(name)), None)
    remedy = f"One is here: {here} packaging/dev.py" if here else "Install one, then call this with it."
    raise Refusal(
        f"Tandem needs CPython 3.{OLDEST[1]} to 3.{NEWEST[1]}; "
        f"this is {implementation} {version[0]}.{version[1]}. {remedy}"
    )


def check_venv_module(find: Callable[[str], object] = importlib.util.find_spec) -> None:
    """Debian ships venv without ensurepip, in which case venv exists and fails."""
    if find("venv") is None or find("ensurepip") is None:
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        raise Refusal(
            "This Python cannot make virtual environments: venv or ensurepip is missing. "
            f"On Debian and Ubuntu: sudo apt install {package}"
        )


def check_display(system: str, environment: Mapping[str, str]) -> None:
    names = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    if system == "Linux" and not any(environment.get(name) for name in names):
        raise Refusal(
            "No window can open here: neither DISPLAY nor WAYLAND_DISPLAY is set. Call this from a desktop "
            "session, through ssh -X, or under xvfb-run. The terminal needs no display: "
            'python3 packaging/dev.py run say "Hello"'
        )


def libraries_for_window(environment: Mapping[str, str]) -> dict[str, str]:
    """With both X11 and Wayland at hand, Qt takes whichever works."""
    x11, wayland = (bool(environment.get(name)) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if environment.get("QT_QPA_PLATFORM") or x11 == wayland:
        return QT_LIBRARIES
    return {**QT_LIBRARIES, **(X11_LIBRARIES if x11 else WAYLAND_LIBRARIES)}


def loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def check_libraries(needed: Mapping[str, str], system: str, present: Callable[[str], bool] = loads) -> None:
    missing = [name for name in needed if not present(name)] if system == "Linux" else []
    if missing:
        packages = " ".join(needed[name] for name in missing)
        raise Refusal(
            f"Qt needs libraries that are missing here: {', '.join(missing)}.\n"
            f"On Debian and Ubuntu: sudo apt install {packages}"
        )
