"""A Hub on this machine, and a cache of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from huggingface_hub import close_session

from app.hub.connection import Connection
from app.hub.download import download, make_plan
from app.hub.entries import DownloadProgress
from app.hub.files import needed_files
from app.hub.search import details
from tests.helpers import hub_server, tiny
from tests.helpers.hub_server import Hub, Repo

REPO = "lab/tiny"


@pytest.fixture(autouse=True)
def no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real model of two safetensors shards, with its tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoint")
    return tiny.save(tiny.model("llama"), folder, max_shard_size="100KB")


@pytest.fixture
def hub(checkpoint: Path) -> Iterator[Hub]:
    with hub_server.serving() as hub:
        hub.repos[REPO] = Repo.of(checkpoint)
        yield hub
    close_session()


@pytest.fixture
def connection(hub: Hub, tmp_path: Path) -> Connection:
    return Connection(endpoint=hub.url, cache=str(tmp_path / "cache"))


@pytest.fixture
def get(connection: Connection) -> Callable[..., list[DownloadProgress]]:
    """Downloads a repository wholly."""

    def run(repo: str = REPO, stop: Event | None = None) -> list[DownloadProgress]:
        found = details(connection, repo)
        plan = make_plan(found, "main", needed_files(found.files))
        return list(download(connection, plan, stop or Event()))

    return run
