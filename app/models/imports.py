"""Importing torch and transformers beside a window that must not stall.

Both take seconds, in a thread of their own, but two things in them hold every other thread up: the dynamic
linker at work on torch's libraries while Python's lock is held (0.4 s measured), and collections of garbage
among the million objects that the imports create (0.2 s each).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import os
import sys
from pathlib import Path

LOADING = "app.models.loading"


def import_quietly() -> None:
    """Imports what loading a pair needs, without holding Python's lock for long; at once when it is there."""
    if LOADING in sys.modules:
        return
    _link_torch()
    gc.disable()
    try:
        importlib.import_module(LOADING)
    finally:
        gc.enable()
    gc.freeze()  # modules live for ever: no later collection looks at them again


def _link_torch() -> None:
    """Loads torch's biggest library through a foreign call, which gives Python's lock back meanwhile.

    Only where the C library has dlopen. What goes wrong here goes wrong again, with a proper message, when
    torch is imported.
    """
    spec = importlib.util.find_spec("torch")
    if sys.platform == "win32" or spec is None or spec.origin is None:
        return
    suffix = "dylib" if sys.platform == "darwin" else "so"
    library = Path(spec.origin).parent / "lib" / f"libtorch_cpu.{suffix}"
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.restype = ctypes.c_void_p
    dlopen(os.fsencode(library), os.RTLD_NOW)
