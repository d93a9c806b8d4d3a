"""From the start of the process to the window on the screen.

Starts the application afresh, with an empty data folder, and waits for the line that it writes once the main
window has been painted for the first time (TANDEM_STARTUP_PROBE=1). One start before them fills the disk's
cache. Without a display it runs on Qt's offscreen platform.

    python -m tests.benchmarks.startup [--runs N] [--json]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from time import perf_counter

from tests.benchmarks import common


def seconds_to_window(home: str) -> float:
    environment = {**os.environ, "TANDEM_STARTUP_PROBE": "1", "TANDEM_HOME": home}
    if not environment.get("DISPLAY"):
        environment.setdefault("QT_QPA_PLATFORM", "offscreen")
    began = perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "app"], stdout=subprocess.PIPE, text=True, env=environment
    ) as started:
        assert started.stdout is not None
        for line in started.stdout:
            if line.strip() == "window visible":
                seconds = perf_counter() - began
                started.wait(30)
                return seconds
    sys.exit(f"the window never came up; exit status {started.returncode}")


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        seconds_to_window(home)
        times = [seconds_to_window(home) for _ in range(options.runs)]
    median = statistics.median(times)
    line = f"window after {median:.2f} s (median of {len(times)}; {min(times):.2f} to {max(times):.2f} s)"
    common.show({"median_seconds": median, "seconds": times}, [line], options.json)


if __name__ == "__main__":
    main()
