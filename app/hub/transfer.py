"""One file from the Hub to the disk over plain HTTP ranges: it goes on where it was cut, also after a restart.

huggingface_hub 2.4 cannot: it gives every temporary file a name of its own and deletes it on failure.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from threading import Event

from huggingface_hub import constants, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import hf_raise_for_status, httpx

from app.errors import Cancelled, UserFacingError
from app.hub.connection import Connection
from app.hub.entries import RepoFile

BLOCK = 1 << 20  # bytes
ATTEMPTS = 5  # without a single new byte
LONGEST_WAIT = 30.0  # seconds
RETRIED = {408, 425, 429, 500, 502, 503, 504}


def fetch(
    connection: Connection, repo: str, commit: str, file: RepoFile, destination: Path, stop: Event
) -> Iterator[int]:
    """Yields the bytes that are there, until `destination` is whole and checked.

    What has arrived lies beside it under .incomplete and stays there when the transfer ends early. Raises
    UserFacingError when the file that arrived is not the one that was promised, Cancelled when `stop` is
    set, and what the network and the disk raise after ATTEMPTS without progress.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_name(f"{destination.name}.incomplete")
    if _size(partial) > file.size:
        partial.unlink()
    url = hf_hub_url(repo, file.name, revision=commit, endpoint=connection.address)
    failures = 0
    while _size(partial) < file.size or not partial.exists():
        before = _size(partial)
        try:
            yield from _receive(connection, url, partial, file.size, stop)
            failures = 0
        except (httpx.TransportError, HfHubHTTPError) as error:
            failures = 1 if _size(partial) > before else failures + 1
            if failures >= ATTEMPTS or not _may_pass(error):
                raise
            _wait(error, failures, stop)
    _check(partial, file, stop)
    partial.replace(destination)
    yield file.size


def _receive(connection: Connection, url: str, partial: Path, size: int, stop: Event) -> Iterator[int]:
    """Appends what the server sends behind the bytes that are there; it may also insist on starting over."""
    start = _size(partial)
    headers = connection.headers() | {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    limit = httpx.Timeout(constants.HF_HUB_DOWNLOAD_TIMEOUT)
    with connection.session().stream("GET", url, headers=headers, timeout=limit) as response:
        if response.status_code >= 400:
            response.read()
        hf_raise_for_status(response)
        goes_on = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        with partial.open("ab" if start and goes_on else "wb") as file:
            for (
                block
            ) in response.iter_raw():  # as it arrives: what a buffer holds is lost when the line drops
                file.write(block)
                if file.tell() > size:
                    break  # more than was promised: the check tells
                yield file.tell()
                if stop.is_set():
                    raise Cancelled


def _may_pass(error: Exception) -> bool:
    return not isinstance(error, HfHubHTTPError) or error.response.status_code in RETRIED


def _wait(error: Exception, failures: int, stop: Event) -> None:
    """Twice as long each time, or as long as the server asks; Cancel is heard at once."""
    seconds = min(LONGEST_WAIT, 2.0 ** (failures - 1) * random.uniform(0.5, 1.0))
    if isinstance(error, HfHubHTTPError):
        asked = error.response.headers.get("Retry-After", "")
        seconds = min(LONGEST_WAIT, float(asked)) if asked.isdecimal() else seconds
    if stop.wait(seconds):
        raise Cancelled


def _check(path: Path, file: RepoFile, stop: Event) -> None:
    """Size and digest; what fails is deleted, so that the next try starts over."""
    if _size(path) == file.size and digest(path, file.large, stop) == file.digest:
        return
    path.unlink()
    raise UserFacingError(
        f"{file.name} arrived damaged.",
        "Its size or its digest is not what the Hub promised; it was deleted.",
        "Download it again.",
    )


def digest(path: Path, large: bool, stop: Event) -> str:
    """SHA-256 of a large file, git's SHA-1 of a small one. Raises Cancelled when `stop` is set."""
    known = (
        hashlib.sha256() if large else hashlib.sha1(f"blob {_size(path)}\0".encode(), usedforsecurity=False)
    )
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            known.update(block)
            if stop.is_set():
                raise Cancelled
    return known.hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
