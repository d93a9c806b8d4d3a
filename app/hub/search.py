"""Search results and details of models on the Hub."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from huggingface_hub import ModelInfo
from huggingface_hub.utils import hf_raise_for_status

from app.hub.cache import present_repos
from app.hub.connection import SECONDS, Connection
from app.hub.entries import ModelDetails, ModelEntry, Query, RepoFile
from app.hub.failures import explained

NAME = r"[\w.-]+/[\w.-]+"
ADDRESS = re.compile(rf"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/({NAME})")
PROPERTIES = "downloads likes gated private safetensors gguf config lastModified tags pipeline_tag".split()
SORTS = {"downloads": "downloads", "likes": "likes", "newest": "lastModified"}
FORMATS = ("safetensors", "gguf", "bitsandbytes")
BYTES = {
    "F64": 8,
    "I64": 8,
    "F32": 4,
    "I32": 4,
    "F16": 2,
    "BF16": 2,
    "I16": 2,
}  # safetensors' formats; 1 in others


def named_repo(text: str) -> str | None:
    """The repository that a text names: `owner/name`, or an address somebody pasted."""
    address = ADDRESS.match(text.strip())
    if address:
        return address[1]
    return text.strip() if re.fullmatch(NAME, text.strip()) else None


def search(connection: Connection, query: Query) -> Iterator[ModelEntry]:
    """All results, fetched page by page as they are asked for. Raises UserFacingError.

    Not through huggingface_hub's list_models, which tries a failing Hub for half a minute before it tells.
    """
    present = present_repos(connection.folder)
    with explained("The search", connection.address):
        for found in _pages(connection, _parameters(query)):
            for each in found:
                yield _entry(ModelInfo(**({"siblings": None} | each)), present)  # type: ignore[no-untyped-call]


def _pages(connection: Connection, first: Mapping[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The first page and all that the Hub links to."""
    address: str | None = f"{connection.address}/api/models"
    parameters: Mapping[str, Any] | None = first
    while address:
        response = connection.session().get(
            address, params=parameters, headers=connection.headers(), timeout=SECONDS
        )
        hf_raise_for_status(response)
        yield response.json()
        address, parameters = response.links.get("next", {}).get("url"), None  # its address says all


def _parameters(query: Query) -> dict[str, Any]:
    filters = [f"license:{query.licence}"] if query.licence else []
    filters += [] if query.format == "any" else [query.format]
    bounds = [f"{name}:{size}" for name, size in (("min", query.smallest), ("max", query.largest)) if size]
    asked = {
        "search": named_repo(query.text) or query.text.strip(),
        "pipeline_tag": "text-generation" if query.writes_text else "",
        "filter": filters,
        "gated": "" if query.gated == "any" else str(query.gated == "gated").lower(),
        "num_parameters": ",".join(bounds),
        "sort": SORTS[query.sort],
        "expand": PROPERTIES,
    }
    return {name: value for name, value in asked.items() if value}


def details(connection: Connection, repo: str, revision: str = "main") -> ModelDetails:
    """The files of one revision and its commit. Raises UserFacingError."""
    with explained(repo, connection.address):
        api = connection.api()
        info = api.model_info(repo, revision=revision, files_metadata=True, timeout=SECONDS)
        refs = api.list_repo_refs(repo)
    return ModelDetails(
        _entry(info, present_repos(connection.folder)),
        info.sha or "",
        tuple(_file(each) for each in info.siblings or ()),
        {each.name: each.target_commit for each in (*refs.branches, *refs.tags)},
    )


def _entry(info: ModelInfo, present: frozenset[str]) -> ModelEntry:
    tags = info.tags or []
    weights, gguf = info.safetensors, info.gguf or {}
    config = info.config or {}
    named = config.get("architectures") or [gguf.get("architecture") or config.get("model_type")]
    return ModelEntry(
        repo=info.id,
        downloads=info.downloads or 0,
        likes=info.likes or 0,
        licence=next((each.removeprefix("license:") for each in tags if each.startswith("license:")), None),
        gated=bool(info.gated),
        private=bool(info.private),
        parameters=weights.total if weights else gguf.get("total"),
        architecture=named[0],
        updated=info.last_modified.date().isoformat() if info.last_modified else None,
        formats=tuple(each for each in FORMATS if each in tags),
        present=info.id in present,
        bytes=sum(BYTES.get(kind, 1) * count for kind, count in weights.parameters.items())
        if weights
        else None,
        context=gguf.get("context_length"),
    )


def _file(sibling: Any) -> RepoFile:
    large = sibling.lfs
    return RepoFile(
        sibling.rfilename, sibling.size or 0, large.sha256 if large else sibling.blob_id, large is not None
    )
