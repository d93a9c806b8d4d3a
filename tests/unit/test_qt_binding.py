"""The binding between Python and Qt is sound: some releases lose a reference to None at each void call."""

from __future__ import annotations

import subprocess
import sys

CALLS = 20_000
PROBE = f"""
import sys
from PySide6.QtCore import QObject

thing = QObject()
before = sys.getrefcount(None)
for _ in range({CALLS}):
    thing.setObjectName("x")
print(sys.getrefcount(None) - before)
"""


def test_void_calls_leave_none_alone() -> None:
    """In a process of its own, which dies when None does. From Python 3.12 on None is immortal."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert abs(int(done.stdout)) < CALLS / 100
