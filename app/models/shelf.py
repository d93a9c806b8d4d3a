"""What the person chose of models: the last pair, local folders and files, and what strangers' files may do."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.records import ModelSpec, PairSpec, as_dict

log = logging.getLogger(__name__)


class Shelf:
    """One JSON file. A damaged one costs the choices in it, never the start of the program."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.pair = PairSpec()
        self.added: tuple[str, ...] = ()
        self._consents: set[str] = set()
        self._read()

    def keep_pair(self, pair: PairSpec) -> None:
        self.pair = pair
        self._write()

    def add(self, source: str) -> None:
        """A local folder or GGUF file."""
        self.added = (*(each for each in self.added if each != source), source)
        self._write()

    def drop(self, source: str) -> None:
        self.added = tuple(each for each in self.added if each != source)
        self._write()

    def allows(self, kind: str, repo: str, commit: str) -> bool:
        """Whether "code" or "pickle" files of this revision may be used."""
        return _consent(kind, repo, commit) in self._consents

    def allow(self, kind: str, repo: str, commit: str, allowed: bool) -> None:
        if allowed:
            self._consents.add(_consent(kind, repo, commit))
        else:
            self._consents.discard(_consent(kind, repo, commit))
        self._write()

    def _read(self) -> None:
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            self.pair = _pair(stored["pair"])
            self.added = tuple(str(each) for each in stored["added"])
            self._consents = {str(each) for each in stored["consents"]}
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("the choice of models is lost: %s", error)

    def _write(self) -> None:
        kept = {"pair": as_dict(self.pair), "added": self.added, "consents": sorted(self._consents)}
        unfinished = self._path.with_suffix(".new")
        try:
            unfinished.write_text(json.dumps(kept, indent=1), encoding="utf-8")
            unfinished.replace(self._path)
        except OSError as error:
            log.warning("the choice of models is not kept: %s", error)


def _pair(stored: Mapping[str, Any]) -> PairSpec:
    assistant = stored["assistant"]
    return PairSpec(
        ModelSpec(**stored["target"]), ModelSpec(**assistant) if assistant else None, int(stored["context"])
    )


def _consent(kind: str, repo: str, commit: str) -> str:
    return f"{kind} {repo}@{commit}"
