"""Searching a Hub: what is asked for comes, page by page; and what goes wrong is told apart (H1)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from threading import Event

import pytest

from app.errors import UserFacingError
from app.hub.connection import Connection
from app.hub.download import download, make_plan
from app.hub.entries import Query, by_size
from app.hub.files import needed_files
from app.hub.search import details, named_repo, search
from tests.helpers.hub_server import ACCESS, NO_ACCESS, Fault, Hub, Repo
from tests.unit.hub.conftest import REPO


@pytest.fixture
def many(hub: Hub) -> None:
    hub.repos["lab/base"] = Repo(parameters=5000, downloads=50)
    hub.repos["lab/gated"] = Repo(gated=True, downloads=40)
    hub.repos["lab/gguf"] = Repo(tags=("gguf", "license:mit"), parameters=None, downloads=30)
    hub.repos["lab/pictures"] = Repo(task="text-to-image")
    hub.repos["other/hidden"] = Repo(private=True)


def names(connection: Connection, query: Query) -> list[str]:
    return [each.repo.split("/")[1] for each in search(connection, query)]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(), ["base", "gated", "gguf", "tiny"]),
        (Query("bas"), ["base"]),
        (Query("lab/base"), ["base"]),
        (Query("https://huggingface.co/lab/base/tree/main"), ["base"]),
        (Query(licence="mit"), ["gguf"]),
        (Query(format="gguf"), ["gguf"]),
        (Query(gated="gated"), ["gated"]),
        (Query(gated="open"), ["base", "gguf", "tiny"]),
        (Query(smallest=4000), ["base"]),
        (Query(largest=2000), ["gated", "gguf", "tiny"]),
        (Query(writes_text=False), ["base", "gated", "gguf", "tiny", "pictures"]),
        (Query("nothing like it"), []),
    ],
)
def test_what_is_found(connection: Connection, query: Query, found: list[str]) -> None:
    assert names(connection, query) == found


@pytest.mark.usefixtures("many")
def test_sizes_sort_what_is_loaded_with_the_unknown_last(connection: Connection) -> None:
    entries = by_size(search(connection, Query()))
    assert [each.parameters for each in entries] == [1000, 1000, 5000, None]


def test_pages_are_fetched_as_they_are_needed(hub: Hub, connection: Connection) -> None:
    hub.repos = {f"lab/m{number:04}": Repo() for number in range(1000)}
    found = search(connection, Query())
    assert len(list(islice(found, 150))) == 150
    assert len(hub.requests) == 2
    assert len(list(found)) == 850
    assert len(hub.requests) == 10


def test_what_is_on_disk_is_marked_also_after_it_changed(
    connection: Connection, get: Callable[..., object]
) -> None:
    """P5."""
    assert not next(search(connection, Query())).present
    get()
    assert next(search(connection, Query())).present


def test_details(connection: Connection) -> None:
    found = details(connection, REPO)
    assert found.entry.architecture == "LlamaForCausalLM" and found.entry.licence == "apache-2.0"
    assert "main" in found.refs and len(found.commit) == 40
    assert all(each.size > 0 for each in found.files)


@pytest.mark.parametrize(
    ("text", "repo"),
    [
        ("a/b", "a/b"),
        (" a/b-1.5_x ", "a/b-1.5_x"),
        ("huggingface.co/a/b", "a/b"),
        ("https://hf.co/a/b/blob/main/config.json", "a/b"),
        ("two words", None),
        ("a", None),
        ("a/b/c", None),
    ],
)
def test_names_and_addresses(text: str, repo: str | None) -> None:
    assert named_repo(text) == repo


def get(connection: Connection, repo: str) -> None:
    found = details(connection, repo)
    list(download(connection, make_plan(found, "main", needed_files(found.files)), Event()))


def refusal(connection: Connection, repo: str) -> UserFacingError:
    with pytest.raises(UserFacingError) as caught:
        get(connection, repo)
    assert caught.value.remedy
    return caught.value


CASES = [
    ("gated", None, "gated, and there is no access token"),
    ("gated", NO_ACCESS, "gated, and your account has no access"),
    ("private", None, "private and there is no access token"),
    ("private", NO_ACCESS, "private and your token may not read it"),
    ("none", NO_ACCESS, "was not found"),
    ("open", "hf_mistyped_0000000", "does not accept your access token"),
]


@pytest.mark.parametrize(("repo", "token", "words"), CASES)
def test_refusals_are_told_apart(
    hub: Hub,
    connection: Connection,
    repo: str,
    token: str | None,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H1."""
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    files = {"config.json": b"{}", "model.safetensors": b"x"}
    hub.repos |= {
        "lab/gated": Repo(files, gated=True),
        "lab/private": Repo(files, private=True),
        "lab/open": Repo(files),
    }
    error = refusal(connection, f"lab/{repo}")
    assert words in str(error)
    assert token is None or token not in str(error)
    if repo == "gated":
        assert f"{hub.url}/lab/gated" in error.remedy


def test_with_access_it_comes(hub: Hub, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos[REPO].gated = hub.repos[REPO].private = True
    monkeypatch.setenv("HF_TOKEN", ACCESS)
    found = details(connection, REPO)
    assert list(download(connection, make_plan(found, "main", needed_files(found.files)), Event()))


@pytest.mark.parametrize(("status", "words"), [(403, "forbids"), (429, "too often"), (500, "error 500")])
def test_a_search_that_fails(hub: Hub, connection: Connection, status: int, words: str) -> None:
    hub.faults["/api/models"] = Fault(times=99, status=status)
    with pytest.raises(UserFacingError, match=words):
        list(search(connection, Query()))


def test_nobody_answers(connection: Connection, tmp_path: object) -> None:
    """H4."""
    with pytest.raises(UserFacingError, match="cannot be reached"):
        list(search(Connection(endpoint="http://127.0.0.1:9", cache=connection.cache), Query()))


def test_offline_asks_nobody(hub: Hub, connection: Connection) -> None:
    away = Connection(endpoint=hub.url, cache=connection.cache, offline=True)
    with pytest.raises(UserFacingError, match="offline"):
        list(search(away, Query()))
    assert hub.requests == []


def test_a_proxy_and_a_certificate_are_used(hub: Hub, connection: Connection, tmp_path: object) -> None:
    """H4: a proxy that is not there breaks the connection, so it was asked."""
    through = Connection(endpoint=hub.url, cache=connection.cache, proxy="http://127.0.0.1:9")
    through.apply()
    try:
        with pytest.raises(UserFacingError, match="cannot be reached"):
            list(search(through, Query()))
    finally:
        Connection().apply()
    assert hub.requests == []
    assert list(search(connection, Query()))
    with pytest.raises(UserFacingError, match="certificate file"):
        Connection(certificates="/no/such.pem")._trust()
