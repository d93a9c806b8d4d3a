"""A search result looked at once more: one question to the Hub and one small file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

from app.errors import UserFacingError
from app.hub.cache import read_json
from app.hub.connection import Connection
from app.hub.download import peek
from app.hub.entries import Glance, ModelDetails
from app.hub.files import needed_files
from app.hub.search import details

LARGEST_CARD = 1_000_000  # bytes
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "n_ctx")


def glance(connection: Connection, repo: str, peeked: Path, stop: Event) -> Glance:
    """Raises UserFacingError when the Hub cannot be asked; a gated model's context stays unknown."""
    found = details(connection, repo)
    size, obstacle = _size(found)
    return Glance(
        repo, found.commit, size, found.entry.context or _context(connection, found, peeked, stop), obstacle
    )


def read_card(connection: Connection, found: ModelDetails, peeked: Path, stop: Event) -> str:
    """What its author says of a model, as Markdown; empty where there is nothing."""
    card = tuple(each for each in found.files if each.name == "README.md" and each.size <= LARGEST_CARD)
    if not card:
        return ""
    folder = peek(connection, found, card, peeked, stop)
    return (folder / "README.md").read_text(encoding="utf-8", errors="replace")


def _size(found: ModelDetails) -> tuple[int | None, str]:
    try:
        return sum(each.size for each in needed_files(found.files)), ""
    except UserFacingError as error:
        return None, error.title


def _context(connection: Connection, found: ModelDetails, peeked: Path, stop: Event) -> int | None:
    config = tuple(each for each in found.files if each.name == "config.json")
    if not config:
        return None
    try:
        folder = peek(connection, found, config, peeked, stop)
    except UserFacingError:
        return None
    return context_length(read_json(folder / "config.json"))


def context_length(config: Mapping[str, Any]) -> int | None:
    """Tokens that a configuration says its model was made for; a text model inside a larger one counts."""
    inner = config.get("text_config")
    for each in (config, inner if isinstance(inner, dict) else {}):
        for key in CONTEXT_KEYS:
            if isinstance(each.get(key), int):
                return int(each[key])
    return None
