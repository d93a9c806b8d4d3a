"""Which of a repository's files a model needs: one set of weights, configuration, tokenizer, and no more."""

from __future__ import annotations

from collections.abc import Iterable

from app.errors import UserFacingError
from app.hub.entries import RepoFile

INDEX = "model.safetensors.index.json"
PICKLE_INDEX = "pytorch_model.bin.index.json"
TOKENIZER_ENDINGS = (
    ".json",
    ".jinja",
    ".tiktoken",
    "tokenizer.model",
    "spiece.model",
    "merges.txt",
    "vocab.txt",
)
LARGE_PEEK = 20_000_000
"""Bytes of configuration and tokenizer above which the size is told before they are fetched."""


def small_files(files: Iterable[RepoFile], own_code: bool = False) -> tuple[RepoFile, ...]:
    """Configuration, tokenizer and chat template, and program code only where the person consents."""
    endings = (*TOKENIZER_ENDINGS, ".py") if own_code else TOKENIZER_ENDINGS
    return tuple(
        each
        for each in files
        if each.name.endswith(endings)
        and ("/" not in each.name or each.name.startswith("additional_chat_templates/"))
        and not each.name.endswith(".index.json")
    )


def needed_files(
    files: Iterable[RepoFile], gguf: str = "", own_code: bool = False, pickle: bool = False
) -> tuple[RepoFile, ...]:
    """What to download. Raises UserFacingError where there are only pickles (H7), or several GGUF files.

    Without a `gguf` file named, safetensors are taken where there are any, else the only GGUF file.
    """
    here = [each for each in files if _safe(each.name)]
    small = small_files(here, own_code)
    if gguf:
        return (*small, _named(here, gguf))
    if weights := _safetensors(here):
        return (*small, *weights)
    ggufs = [each for each in here if each.name.endswith(".gguf")]
    if len(ggufs) == 1:
        return (*small, *ggufs)
    if ggufs:
        names = ", ".join(each.name for each in ggufs)
        raise UserFacingError("It holds several GGUF files.", names, "Choose one of them by its name.")
    return (*small, *_pickles(here, pickle))


def _safetensors(files: list[RepoFile]) -> list[RepoFile]:
    """The shards and their index, or the single file; copies under other names and precisions are left out."""
    index = [each for each in files if each.name == INDEX]
    shards = [each for each in files if each.name.startswith("model-") and each.name.endswith(".safetensors")]
    if index and shards:
        return [*index, *shards]
    return [each for each in files if each.name == "model.safetensors"]


def _pickles(files: list[RepoFile], consent: bool) -> list[RepoFile]:
    found = [
        each
        for each in files
        if each.name == PICKLE_INDEX or (each.name.startswith("pytorch_model") and each.name.endswith(".bin"))
    ]
    if not found:
        raise UserFacingError("It holds no weights that Tandem can read.", "", "Choose another model.")
    if not consent:
        raise UserFacingError(
            "Its weights come as pickles only.",
            "Reading a pickle can run any program that its author put there.",
            "Choose a model with safetensors. If you trust its author, allow its pickles: on its page in the "
            "window, with --allow-pickle in the terminal.",
        )
    return found


def _named(files: list[RepoFile], name: str) -> RepoFile:
    for each in files:
        if each.name == name and name.endswith(".gguf"):
            return each
    known = ", ".join(each.name for each in files if each.name.endswith(".gguf")) or "none"
    raise UserFacingError(f"It holds no GGUF file {name}.", f"Those it has: {known}.", "Choose one of these.")


def _safe(name: str) -> bool:
    """A stranger's file name must not lead out of the folder."""
    parts = name.replace("\\", "/").split("/")
    return not name.startswith(("/", "\\")) and ":" not in name and ".." not in parts and "" not in parts
