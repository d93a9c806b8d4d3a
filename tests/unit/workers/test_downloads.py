"""The queue of downloads against a Hub on this machine: pause, resume, failure, restart, cancel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import close_session
from pytestqt.qtbot import QtBot

from app.hub import transfer
from app.hub.cache import present_repos, repo_folder
from app.hub.connection import Connection
from app.hub.download import make_plan
from app.hub.entries import Plan
from app.hub.files import needed_files
from app.hub.search import details
from app.workers.downloads import DownloadQueue
from tests.helpers import hub_server
from tests.helpers.hub_server import Fault, Hub, Repo

NAME = "model.safetensors"
BIG = 4_000_000


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(transfer, "LONGEST_WAIT", 0.01)
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (BIG, BIG)
    weights = len(header).to_bytes(8, "little") + header + bytes(BIG)
    with hub_server.serving() as hub:
        for name in ("lab/one", "lab/two"):
            files = {"config.json": b'{"a": "%s"}' % name.encode(), NAME: weights}
            hub.repos[name] = Repo(files)
        yield hub
    close_session()


@pytest.fixture
def connection(hub: Hub, tmp_path: Path) -> Connection:
    return Connection(endpoint=hub.url, cache=str(tmp_path / "cache"))


@pytest.fixture
def make_queue(connection: Connection, tmp_path: Path) -> Iterator[Callable[[], DownloadQueue]]:
    made: list[DownloadQueue] = []

    def make() -> DownloadQueue:
        made.append(DownloadQueue(tmp_path / "downloads.json", lambda: connection))
        return made[-1]

    yield make
    for each in made:
        each.shut_down()


def plan(connection: Connection, repo: str = "lab/one") -> Plan:
    found = details(connection, repo)
    return make_plan(found, "main", needed_files(found.files))


def states(queue: DownloadQueue) -> list[str]:
    return [each.state for each in queue.items]


def test_one_after_the_other(
    qtbot: QtBot, make_queue: Callable[[], DownloadQueue], connection: Connection
) -> None:
    queue = make_queue()
    queue.add(plan(connection))
    queue.add(plan(connection, "lab/two"))
    assert states(queue) == ["running", "waiting"]
    qtbot.waitUntil(lambda: states(queue) == ["done", "done"])
    assert present_repos(connection.folder) == {"lab/one", "lab/two"}


def test_paused_and_resumed_no_byte_comes_twice(
    qtbot: QtBot, make_queue: Callable[[], DownloadQueue], connection: Connection, hub: Hub
) -> None:
    hub.faults[NAME] = Fault(slow=0.02)
    queue = make_queue()
    queue.add(plan(connection))
    qtbot.waitUntil(lambda: hub.sent[NAME] > 500_000)
    queue.pause(queue.items[0].key)
    assert states(queue) == ["paused"] and not present_repos(connection.folder)
    queue.resume(queue.items[0].key)
    qtbot.waitUntil(lambda: states(queue) == ["done"])
    assert hub.sent[NAME] < 1.5 * BIG


def test_a_restart_goes_on_with_what_was_running(
    qtbot: QtBot, make_queue: Callable[[], DownloadQueue], connection: Connection, hub: Hub
) -> None:
    hub.faults[NAME] = Fault(slow=0.02)
    queue = make_queue()
    queue.add(plan(connection))
    qtbot.waitUntil(lambda: hub.sent[NAME] > 500_000)
    queue.shut_down()
    again = make_queue()
    assert states(again) == ["waiting"]
    again.start()
    qtbot.waitUntil(lambda: states(again) == ["done"])
    assert hub.sent[NAME] < 1.5 * BIG
    assert make_queue().items == ()


def test_a_failure_is_told_and_may_be_tried_again(
    qtbot: QtBot, make_queue: Callable[[], DownloadQueue], connection: Connection, hub: Hub
) -> None:
    hub.faults[NAME] = Fault(times=99, status=500)
    queue = make_queue()
    queue.add(plan(connection))
    queue.add(plan(connection, "lab/two"))
    qtbot.waitUntil(lambda: states(queue)[0] == "failed")
    error = queue.items[0].error
    assert error is not None and error.remedy
    hub.faults.clear()
    queue.resume(queue.items[0].key)
    qtbot.waitUntil(lambda: states(queue)[0] == "done")


def test_cancelled_it_leaves_nothing(
    qtbot: QtBot, make_queue: Callable[[], DownloadQueue], connection: Connection, hub: Hub
) -> None:
    hub.faults[NAME] = Fault(slow=0.02)
    queue = make_queue()
    queue.add(plan(connection))
    qtbot.waitUntil(lambda: hub.sent[NAME] > 500_000)
    queue.cancel(queue.items[0].key)
    assert queue.items == ()
    blobs = repo_folder(connection.folder, "lab/one") / "blobs"
    qtbot.waitUntil(lambda: not list(blobs.glob("*.incomplete")))


def test_a_damaged_file_costs_only_the_queue(make_queue: Callable[[], DownloadQueue], tmp_path: Path) -> None:
    (tmp_path / "downloads.json").write_text('[{"plan": 3}]')
    assert make_queue().items == ()
