"""How many candidates of each pair were accepted on this machine, over all replies."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from app.models.speed import Measured

log = logging.getLogger(__name__)


class Measurements:
    """Kept in one JSON file; a damaged one is put aside, and a disk that cannot be written costs no reply."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts = self._read()

    def of(self, target: str, assistant: str) -> Measured | None:
        counts = self._counts.get(_key(target, assistant))
        return Measured(*counts) if counts else None

    def add(self, target: str, assistant: str, judged: int, accepted: int) -> None:
        if not judged:
            return
        before = self._counts.get(_key(target, assistant), [0, 0])
        self._counts[_key(target, assistant)] = [before[0] + judged, before[1] + accepted]
        unfinished = self._path.with_suffix(".new")
        try:
            unfinished.write_text(json.dumps(self._counts, indent=1), encoding="utf-8")
            unfinished.replace(self._path)
        except OSError as error:
            log.warning("measured acceptance is not kept: %s", error)

    def _read(self) -> dict[str, list[int]]:
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(pair): [int(judged), int(accepted)] for pair, (judged, accepted) in stored.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            log.warning("measured acceptance starts anew: %s", error)
            self._put_aside()
            return {}

    def _put_aside(self) -> None:
        try:
            self._path.replace(self._path.with_suffix(".damaged"))
        except OSError as error:
            log.warning("the damaged file stays: %s", error)


def _key(target: str, assistant: str) -> str:
    return f"{target} + {assistant}"
