"""Starts the desktop application, or with arguments a command of the terminal's front end.

Nothing heavy is imported before it is known which: `tandem --help` answers at once, and the window is up
before torch is.
"""

from __future__ import annotations

import sys


def main() -> int:
    """The console script `tandem`, and `python -m app`; returns the exit status."""
    arguments = sys.argv[1:]
    if arguments:
        from app.cli.main import main as run_command

        return run_command(arguments)
    from app.application import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
