"""Downloads against a Hub that fails on demand (H2, H3): whole and checked, or not there at all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download
from transformers import AutoModelForCausalLM, AutoTokenizer

from app.errors import Cancelled, UserFacingError
from app.hub import transfer
from app.hub.cache import present_repos, remove, repo_folder, snapshot_folder, stored_models
from app.hub.connection import Connection
from app.hub.download import RESERVE, download, forget, make_plan, missing_bytes, peek, require_room
from app.hub.entries import DownloadProgress
from app.hub.files import needed_files, small_files
from app.hub.search import details
from tests.helpers.hub_server import COMMIT, Fault, Hub, Repo
from tests.unit.hub.conftest import REPO

Get = Callable[..., list[DownloadProgress]]


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LONGEST_WAIT", 0.01)


def shards(hub: Hub) -> list[str]:
    return sorted(name for name in hub.repos[REPO].files if name.endswith(".safetensors"))


def test_other_tools_find_what_was_downloaded(get: Get, connection: Connection, hub: Hub) -> None:
    heard = get()
    assert heard[-1].done == heard[-1].size == sum(map(len, hub.repos[REPO].files.values()))
    folder = snapshot_folder(REPO, "main", connection.folder)
    cached = snapshot_download(REPO, cache_dir=connection.folder, local_files_only=True)
    assert Path(cached) == folder
    asked = len(hub.requests)
    for name in hub.repos[REPO].files:
        assert hf_hub_download(REPO, name, cache_dir=connection.folder, endpoint=hub.url)
    assert not [each for each in hub.requests[asked:] if each.startswith("GET") and "large" in each]
    report = scan_cache_dir(connection.folder)
    assert [each.repo_id for each in report.repos] == [REPO] and not report.warnings
    assert not report.incomplete_files
    AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    AutoTokenizer.from_pretrained(folder, local_files_only=True)


def test_progress_only_grows(get: Get) -> None:
    done = [each.done for each in get()]
    assert done == sorted(done)


def test_a_second_download_fetches_nothing(get: Get, hub: Hub) -> None:
    get()
    sent = sum(hub.sent.values())
    get()
    assert sum(hub.sent.values()) == sent


def test_a_dropped_connection_goes_on_from_where_it_was(get: Get, hub: Hub, connection: Connection) -> None:
    name = shards(hub)[0]
    size = len(hub.repos[REPO].files[name])
    hub.faults[name] = Fault(times=3, drop_after=size // 5)
    get()
    assert hub.sent[name] == size, "no byte came twice"
    assert present_repos(connection.folder) == {REPO}


def cancel_within(progress: Iterator[DownloadProgress], name: str, stop: Event) -> None:
    for each in progress:
        if each.file == name and each.file_done > transfer.BLOCK:
            stop.set()


def test_cancel_keeps_what_has_arrived_and_shows_no_model(hub: Hub, connection: Connection) -> None:
    name = shards(hub)[0]
    hub.repos[REPO].files[name] = content = bytes(3 * transfer.BLOCK)
    hub.faults[name] = Fault(slow=0.005)
    found = details(connection, REPO)
    plan = make_plan(found, "main", needed_files(found.files))
    with pytest.raises(Cancelled):
        cancel_within(download(connection, plan, stop := Event()), name, stop)
    assert stored_models(connection.folder) == []
    blobs = repo_folder(connection.folder, REPO) / "blobs"
    before = plan.size - missing_bytes(blobs, plan)
    assert before >= transfer.BLOCK
    hub.sent.clear()
    list(download(connection, plan, Event()))
    assert hub.sent[name] < len(content)


@pytest.mark.parametrize("fault", [Fault(wrong=True), Fault(times=3, wrong=True, drop_after=1000)])
def test_wrong_bytes_are_never_taken_for_a_model(
    get: Get, hub: Hub, connection: Connection, fault: Fault
) -> None:
    hub.faults[shards(hub)[1]] = fault
    with pytest.raises(UserFacingError, match="damaged"):
        get()
    assert present_repos(connection.folder) == frozenset()
    hub.faults.clear()
    get()
    assert present_repos(connection.folder) == {REPO}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_error_is_tried_again(get: Get, hub: Hub, connection: Connection, status: int) -> None:
    hub.faults[shards(hub)[0]] = Fault(times=2, status=status, retry_after="1")
    get()
    assert present_repos(connection.folder) == {REPO}


def test_a_lasting_error_ends_in_words(get: Get, hub: Hub) -> None:
    hub.faults[shards(hub)[0]] = Fault(times=99, status=503)
    with pytest.raises(UserFacingError, match="error 503"):
        get()


def test_a_silent_server_is_tried_again(get: Get, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    name = shards(hub)[0]
    hub.faults[name] = Fault(drop_after=100, stall=1.0)
    get()
    assert hub.sent[name] == len(hub.repos[REPO].files[name])


def test_a_truncated_file_is_not_whole_and_can_be_fetched_again(
    get: Get, hub: Hub, connection: Connection
) -> None:
    """H2: by the safetensors header, without a network."""
    get()
    name = shards(hub)[0]
    blob = (snapshot_folder(REPO, "main", connection.folder) / name).resolve()
    blob.write_bytes(blob.read_bytes()[:-8])
    with pytest.raises(UserFacingError, match=name):
        snapshot_folder(REPO, "main", connection.folder)
    assert stored_models(connection.folder)[0].missing == (name,)
    get()
    assert present_repos(connection.folder) == {REPO}


def test_a_missing_shard_is_named(get: Get, hub: Hub, connection: Connection) -> None:
    """H2: by the index."""
    get()
    (snapshot_folder(REPO, "main", connection.folder) / shards(hub)[1]).unlink()
    assert stored_models(connection.folder)[0].missing == (shards(hub)[1],)


def test_one_file_is_downloaded_again(get: Get, hub: Hub, connection: Connection) -> None:
    get()
    found = details(connection, REPO)
    plan = make_plan(found, "main", needed_files(found.files))
    hub.sent.clear()
    forget(connection, plan, shards(hub)[0])
    get()
    assert set(hub.sent) == {shards(hub)[0]}
    with pytest.raises(UserFacingError):
        forget(connection, plan, "none.such")


def test_no_room_is_told_before_a_byte_comes(connection: Connection, tmp_path: Path) -> None:
    """H3."""
    with pytest.raises(UserFacingError, match="not enough room"):
        require_room(tmp_path / "not" / "yet", 1 << 60)
    require_room(tmp_path, 0)
    assert RESERVE > 0


FULL_DISK = """
import resource, signal, sys
from threading import Event
from app.errors import UserFacingError
from app.hub.connection import Connection
from app.hub.download import download, make_plan
from app.hub.files import needed_files
from app.hub.search import details
connection = Connection(endpoint=sys.argv[1], cache=sys.argv[2])
found = details(connection, "lab/tiny")
plan = make_plan(found, "main", needed_files(found.files))
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
try:
    list(download(connection, plan, Event()))
except UserFacingError as error:
    sys.stdout.write(error.title)
"""


def test_a_disk_that_fills_up(hub: Hub, connection: Connection, get: Get) -> None:
    """H3: a quota on file size stands in for a full disk; what has arrived stays and is gone on with."""
    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK, hub.url, str(connection.folder)],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert ended.stdout == "The disk is full."
    assert present_repos(connection.folder) == frozenset()
    hub.sent.clear()
    get()
    assert any(0 < hub.sent[name] < len(content) for name, content in hub.repos[REPO].files.items())


KILLED = """
import sys
from threading import Event
from app.hub.connection import Connection
from app.hub.download import download, make_plan
from app.hub.files import needed_files
from app.hub.search import details
connection = Connection(endpoint=sys.argv[1], cache=sys.argv[2])
found = details(connection, "lab/tiny")
for each in download(connection, make_plan(found, "main", needed_files(found.files)), Event()):
    if each.file.endswith(".safetensors") and each.file_done > 1_000_000:
        sys.stdout.write("under way\\n")
        sys.stdout.flush()
"""


def test_killed_and_started_again_it_goes_on(hub: Hub, connection: Connection, get: Get) -> None:
    """H2: bytes are counted at the server."""
    name = shards(hub)[0]
    hub.repos[REPO].files[name] = bytes(6_000_000)
    hub.faults[name] = Fault(slow=0.02)
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, hub.url, str(connection.folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "under way\n"
        process.kill()
    assert present_repos(connection.folder) == frozenset()
    hub.faults.clear()
    hub.sent.clear()
    get()
    assert 0 < hub.sent[name] < 5_100_000


def test_removed_models_are_gone(get: Get, connection: Connection) -> None:
    get()
    assert remove(connection.folder, REPO) > 0
    assert stored_models(connection.folder) == []
    with pytest.raises(UserFacingError):
        snapshot_folder(REPO, "main", connection.folder)
    with pytest.raises(UserFacingError):
        remove(connection.folder, REPO)


def test_only_needed_files_come(hub: Hub, connection: Connection, checkpoint: Path) -> None:
    """No second precision, no pickle beside safetensors (H7), no program code, nothing outside the folder."""
    repo = Repo.of(checkpoint)
    extra = ("pytorch_model.bin", "model.fp16.safetensors", "consolidated.safetensors", "modeling.py",
             "onnx/config.json", "picture.png", "../../evil.json", "README.md")  # fmt: skip
    repo.files |= dict.fromkeys(extra, b"x")
    hub.repos["lab/much"] = repo
    names = {each.name for each in needed_files(details(connection, "lab/much").files)}
    assert names == {each.name for each in checkpoint.iterdir()}


def test_pickles_need_consent(hub: Hub, connection: Connection) -> None:
    """H7."""
    hub.repos["lab/old"] = Repo({"config.json": b"{}", "pytorch_model.bin": b"x"})
    files = details(connection, "lab/old").files
    with pytest.raises(UserFacingError, match="pickle"):
        needed_files(files)
    assert len(needed_files(files, pickle=True)) == 2


def test_one_of_several_gguf_files_is_chosen_by_name(hub: Hub, connection: Connection) -> None:
    hub.repos["lab/gguf"] = Repo({"a.Q4.gguf": b"x", "a.Q8.gguf": b"y"})
    files = details(connection, "lab/gguf").files
    with pytest.raises(UserFacingError, match="several"):
        needed_files(files)
    assert [each.name for each in needed_files(files, gguf="a.Q8.gguf")] == ["a.Q8.gguf"]
    with pytest.raises(UserFacingError, match=r"a\.Q4\.gguf"):
        needed_files(files, gguf="b.gguf")


def test_peeking_leaves_the_cache_alone(hub: Hub, connection: Connection, tmp_path: Path) -> None:
    found = details(connection, REPO)
    folder = peek(connection, found, small_files(found.files), tmp_path / "peeked", Event())
    assert (folder / "config.json").exists() and (folder / "tokenizer.json").exists()
    assert not list(folder.glob("*.safetensors"))
    assert stored_models(connection.folder) == []
    asked = len(hub.requests)
    peek(connection, found, small_files(found.files), tmp_path / "peeked", Event())
    assert len(hub.requests) == asked


def test_the_commit_is_pinned(get: Get, connection: Connection) -> None:
    get()
    assert snapshot_folder(REPO, COMMIT, connection.folder).name == COMMIT
    assert stored_models(connection.folder)[0].refs == ("main",)


def test_h5_where_links_need_a_privilege_no_space_is_taken_twice_and_nothing_warns(
    get: Get, connection: Connection, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise OSError(1314, "A required privilege is not held by the client")

    monkeypatch.setattr(Path, "symlink_to", forbidden)
    get()
    folder = repo_folder(connection.folder, REPO)
    weights = next(folder.glob("snapshots/*/model-00001*.safetensors"))
    assert not weights.is_symlink() and weights.stat().st_nlink == 2
    taken = {each.stat().st_ino: each.stat().st_size for each in folder.rglob("*") if each.is_file()}
    assert sum(taken.values()) < 1.1 * sum(each.stat().st_size for each in weights.parent.iterdir())
    assert not recwarn.list
