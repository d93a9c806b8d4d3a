"""The models on this disk, in the cache that all Hugging Face tools share."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import scan_cache_dir
from huggingface_hub.errors import CacheNotFound
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import CachedRevisionInfo

from app.errors import UserFacingError
from app.hub.connection import Connection
from app.hub.entries import RepoFile, StoredModel
from app.hub.files import INDEX, PICKLE_INDEX

COMMIT = re.compile(r"[0-9a-f]{40}")
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
LARGEST_HEADER = 100_000_000  # bytes, safetensors' own limit


def repo_folder(cache: Path, repo: str) -> Path:
    return cache / repo_folder_name(repo_id=repo, repo_type="model")


def snapshot_folder(repo: str, revision: str = "main", cache: Path | None = None) -> Path:
    """The folder of a whole model. Raises UserFacingError when it is not on disk, or not all of it."""
    folder = repo_folder(cache or Connection().folder, repo)
    found = folder / "snapshots" / commit_of(folder, revision)
    if not found.is_dir():
        raise UserFacingError(
            f"{repo} is not on this disk.", "", f"Download it first: tandem models download {repo}"
        )
    if missing := missing_files(found):
        raise UserFacingError(
            f"{repo} is not all on this disk.",
            f"Missing or damaged: {', '.join(missing[:5])}.",
            f"Download it again, which fetches only what is missing: tandem models download {repo}",
        )
    return found


def commit_of(folder: Path, revision: str) -> str:
    """The commit that a branch or tag had when it was downloaded; a commit is itself."""
    if COMMIT.fullmatch(revision):
        return revision
    ref = folder / "refs" / revision
    return ref.read_text(encoding="utf-8").strip() if _inside(ref, folder) and ref.is_file() else revision


def stored_models(cache: Path) -> list[StoredModel]:
    """Every revision of every model, whole or not; the last used first."""
    try:
        found = scan_cache_dir(cache).repos
    except CacheNotFound:
        return []
    models = [
        _stored(repo.repo_id, revision, repo.last_accessed)
        for repo in found
        if repo.repo_type == "model"
        for revision in repo.revisions
    ]
    return sorted(models, key=lambda each: -each.last_used)


def present_repos(cache: Path) -> frozenset[str]:
    """The repositories of which some revision is whole."""
    return frozenset(each.repo for each in stored_models(cache) if not each.missing)


def remove(cache: Path, repo: str) -> int:
    """Deletes every revision of a model, and what is left of broken downloads; returns the bytes freed."""
    folder = repo_folder(cache, repo)
    if not folder.is_dir():
        raise UserFacingError(f"{repo} is not on this disk.", "", "See `tandem models list`.")
    freed = sum(
        each.stat().st_size for each in folder.glob("**/*") if each.is_file() and not each.is_symlink()
    )
    shutil.rmtree(folder)
    shutil.rmtree(cache / ".locks" / folder.name, ignore_errors=True)
    return freed


def publish(folder: Path, commit: str, revision: str, files: tuple[RepoFile, ...]) -> Path:
    """Gives checked blobs their names under the commit, the branch last: until then no tool sees a model."""
    snapshot = folder / "snapshots" / commit
    for each in files:
        pointer = snapshot / each.name
        pointer.parent.mkdir(parents=True, exist_ok=True)
        _point(pointer, folder / "blobs" / each.digest)
    if revision != commit:
        ref = folder / "refs" / revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(commit, encoding="utf-8")
    return snapshot


def _point(pointer: Path, blob: Path) -> None:
    """A link, as huggingface_hub makes it; where links need a privilege (H5) a hard link, which costs no space."""
    unfinished = pointer.with_name(f".{pointer.name}.new")
    unfinished.unlink(missing_ok=True)
    try:
        unfinished.symlink_to(os.path.relpath(blob, pointer.parent))
    except OSError:
        try:
            unfinished.hardlink_to(blob)
        except OSError:
            shutil.copyfile(blob, unfinished)
    unfinished.replace(pointer)


def _stored(repo: str, revision: CachedRevisionInfo, used: float) -> StoredModel:
    return StoredModel(
        repo=repo,
        commit=revision.commit_hash,
        refs=tuple(sorted(revision.refs)),
        folder=revision.snapshot_path,
        bytes=revision.size_on_disk,
        last_used=used,
        missing=tuple(missing_files(revision.snapshot_path)),
        config=read_json(revision.snapshot_path / "config.json"),
        ggufs=_ggufs(revision.snapshot_path),
    )


def _ggufs(snapshot: Path) -> tuple[str, ...]:
    if any(snapshot.glob("*.safetensors")) or any(snapshot.glob("*.bin")):
        return ()
    return tuple(sorted(each.name for each in snapshot.glob("*.gguf")))


def missing_files(snapshot: Path) -> list[str]:
    """What a whole model lacks: by its index and by what its weights' headers say of their length (H2)."""
    if any(snapshot.glob("*.gguf")):
        return []
    lacking = [] if (snapshot / "config.json").is_file() else ["config.json"]
    expected = _expected_weights(snapshot)
    return lacking + [each for each in expected if not _is_whole(snapshot / each)]


def _expected_weights(snapshot: Path) -> list[str]:
    for index in (INDEX, PICKLE_INDEX):
        named = read_json(snapshot / index).get("weight_map")
        if isinstance(named, dict):
            return sorted({str(each) for each in named.values()})
    return [next((each for each in WEIGHTS if (snapshot / each).exists()), WEIGHTS[0])]


def _is_whole(path: Path) -> bool:
    if not path.is_file():
        return False
    return path.suffix != ".safetensors" or path.stat().st_size == _length_by_header(path)


def _length_by_header(path: Path) -> int:
    """The size that a safetensors file must have: its header names where the last tensor ends."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(min(length, LARGEST_HEADER)))
            ends = [each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return -1
    return 8 + length + max(ends, default=0)


def read_json(path: Path) -> Mapping[str, Any]:
    """An object in a file; nothing where there is none."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())
