"""What the Hub and the cache on disk tell of models: frozen, and free of huggingface_hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Sort = Literal["downloads", "likes", "newest"]
Gated = Literal["any", "open", "gated"]
Format = Literal["any", "safetensors", "gguf", "bitsandbytes"]


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for. Numbers of parameters are bounds; an empty licence is any."""

    text: str = ""
    writes_text: bool = True  # text generation alone
    sort: Sort = "downloads"
    licence: str = ""
    format: Format = "any"
    gated: Gated = "any"
    smallest: int | None = None
    largest: int | None = None


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One search result; None is what the Hub does not know."""

    repo: str
    downloads: int
    likes: int
    licence: str | None
    gated: bool
    private: bool
    parameters: int | None
    architecture: str | None
    updated: str | None  # ISO 8601 date
    formats: tuple[str, ...]
    present: bool  # whole on this disk
    bytes: int | None = None  # of all weights
    context: int | None = None  # tokens


@dataclass(frozen=True, slots=True)
class Glance:
    """What a search result does not tell: bytes to download, tokens of context, and what stands in the way."""

    repo: str
    commit: str
    bytes: int | None
    context: int | None
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A file of a repository. `digest` is the SHA-256 where `large`, else git's SHA-1 of the blob."""

    name: str
    size: int
    digest: str
    large: bool


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """One revision of a repository; `refs` are the names of its branches and tags with their commits."""

    entry: ModelEntry
    commit: str
    files: tuple[RepoFile, ...]
    refs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to download; the commit is pinned, whatever the branch does meanwhile."""

    repo: str
    revision: str
    commit: str
    files: tuple[RepoFile, ...]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """How far a download is, in bytes; the speed is that of the last seconds."""

    file: str
    file_done: int
    file_size: int
    done: int
    size: int
    bytes_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A repository's revision on this disk. `missing` names what a whole model lacks."""

    repo: str
    commit: str
    refs: tuple[str, ...]
    folder: Path
    bytes: int
    last_used: float  # seconds since the epoch
    missing: tuple[str, ...]
    config: Mapping[str, Any]
    ggufs: tuple[str, ...] = ()  # its weights, where they come as GGUF alone


def by_size(entries: Iterable[ModelEntry]) -> list[ModelEntry]:
    """The smallest first, those of unknown size last: the Hub cannot sort so, what is loaded can be."""
    return sorted(entries, key=lambda each: each.parameters if each.parameters is not None else float("inf"))
