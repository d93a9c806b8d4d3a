"""A whole model from the Hub into the shared cache; and its few small files, to judge it before that."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import monotonic

from huggingface_hub.utils import WeakFileLock

from app.errors import UserFacingError
from app.hub.cache import publish, repo_folder
from app.hub.connection import Connection
from app.hub.entries import DownloadProgress, ModelDetails, Plan, RepoFile
from app.hub.failures import explained
from app.hub.transfer import fetch

RESERVE = 200_000_000  # bytes that a download leaves free on the disk
SPEED_OVER = 5.0  # seconds


def make_plan(found: ModelDetails, revision: str, files: tuple[RepoFile, ...]) -> Plan:
    return Plan(found.entry.repo, revision, found.commit, files)


def download(connection: Connection, plan: Plan, stop: Event) -> Iterator[DownloadProgress]:
    """Fetches what is not there yet, and shows the model to other programs only once all of it is checked.

    Raises UserFacingError (no room, no access, damaged, unreachable) and Cancelled; what has arrived stays
    and the next call goes on from it.
    """
    folder = repo_folder(connection.folder, plan.repo)
    blobs = folder / "blobs"
    require_room(connection.folder, missing_bytes(blobs, plan))
    meter = Meter(plan.size)
    with explained(plan.repo, connection.address):
        for file in plan.files:
            blob = blobs / file.digest
            if not _is_there(blob, file):
                lock = connection.folder / ".locks" / folder.name / f"{file.digest}.lock"
                lock.parent.mkdir(parents=True, exist_ok=True)
                with WeakFileLock(lock):
                    for done in fetch(connection, plan.repo, plan.commit, file, blob, stop):
                        yield meter.read(file, done)
            meter.finish(file)
        publish(folder, plan.commit, plan.revision, plan.files)
    yield DownloadProgress("", 0, 0, plan.size, plan.size)


def forget(connection: Connection, plan: Plan, name: str) -> None:
    """Drops one file, so that the next download fetches it anew."""
    for file in plan.files:
        if file.name == name:
            (repo_folder(connection.folder, plan.repo) / "blobs" / file.digest).unlink(missing_ok=True)
            return
    raise UserFacingError(f"{plan.repo} needs no file {name}.", "", "See `tandem models inspect`.")


def drop_parts(connection: Connection, plan: Plan) -> None:
    """Deletes what has arrived of files that are not whole."""
    blobs = repo_folder(connection.folder, plan.repo) / "blobs"
    for each in plan.files:
        (blobs / f"{each.digest}.incomplete").unlink(missing_ok=True)
    if blobs.is_dir() and not any(blobs.iterdir()):
        shutil.rmtree(blobs.parent)  # nothing of it was ever whole


def peek(
    connection: Connection, found: ModelDetails, files: tuple[RepoFile, ...], into: Path, stop: Event
) -> Path:
    """A folder with these small files, kept for the commit: looking at a model does not put it in the cache."""
    folder = into / repo_folder(Path(), found.entry.repo) / found.commit
    with explained(found.entry.repo, connection.address):
        for file in files:
            if not _is_there(folder / file.name, file):
                for _ in fetch(connection, found.entry.repo, found.commit, file, folder / file.name, stop):
                    pass
    return folder


def missing_bytes(blobs: Path, plan: Plan) -> int:
    """What still has to come, parts that have arrived taken off."""
    waiting = {each.digest: each for each in plan.files if not _is_there(blobs / each.digest, each)}
    arrived = [blobs / f"{digest}.incomplete" for digest in waiting]
    return sum(each.size for each in waiting.values()) - sum(
        each.stat().st_size for each in arrived if each.exists()
    )


def require_room(cache: Path, needed: int) -> None:
    """H3. Raises UserFacingError when the disk has not room for so many bytes."""
    existing = next(each for each in (cache, *cache.absolute().parents) if each.exists())
    free = shutil.disk_usage(existing).free
    if needed and needed + RESERVE > free:
        raise UserFacingError(
            "There is not enough room on the disk.",
            f"{needed / 1e9:.2f} GB are to come and {free / 1e9:.2f} GB are free; "
            f"{RESERVE / 1e9:.1f} GB stay in reserve.",
            "Make room, remove models (`tandem models list`), or set HF_HUB_CACHE to another disk.",
        )


class Meter:
    """Adds up files and measures the speed of the last seconds."""

    def __init__(self, size: int) -> None:
        self._size, self._finished = size, 0
        self._seen: deque[tuple[float, int]] = deque()

    def read(self, file: RepoFile, done: int) -> DownloadProgress:
        now, total = monotonic(), self._finished + done
        self._seen.append((now, total))
        while now - self._seen[0][0] > SPEED_OVER:
            self._seen.popleft()
        began, at = self._seen[0]
        speed = (total - at) / (now - began) if now > began else 0.0
        return DownloadProgress(file.name, done, file.size, total, self._size, max(0.0, speed))

    def finish(self, file: RepoFile) -> None:
        self._finished += file.size


def _is_there(path: Path, file: RepoFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size
