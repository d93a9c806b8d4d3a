"""From a ModelSpec to a model's files, and all that is known of it before its weights are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from app.engine.failures import out_of_memory
from app.errors import Cancelled, UserFacingError
from app.hub.cache import snapshot_folder
from app.hub.search import named_repo
from app.models import starter
from app.models.memory import Holding
from app.models.pair import Checkpoint, count_parameters, refusal, tensor_bytes
from app.records import STARTER, STARTER_NAMES, ModelSpec, Progress

Tell = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Source:
    """A model's files on this disk; `gguf` names the file of its weights where they come as GGUF."""

    held: Holding
    folder: Path
    gguf: str = ""

    @property
    def spec(self) -> ModelSpec:
        return self.held.spec

    @property
    def seen(self) -> Checkpoint:
        return self.held.seen

    @property
    def name(self) -> str:
        return self.held.seen.name

    @property
    def note(self) -> str:
        """What the person should know of how it is held."""
        return f"{self.name} comes as GGUF and is loaded at its full size." if self.gguf else ""

    @property
    def runs_own_code(self) -> bool:
        """Only where transformers does not know the type itself, and with consent."""
        return self.spec.own_code and self.seen.needs_own_code

    def same_weights(self, other: Source) -> bool:
        """Whether both would load the very same numbers."""
        mine, theirs = (
            (each.folder, each.gguf, replace(each.spec, source="", revision="", file=""))
            for each in (self, other)
        )
        return mine == theirs

    def tensor_bytes(self) -> dict[str, int]:
        """The size of each tensor by the safetensors' headers; nothing for other files."""
        return {} if self.gguf else tensor_bytes(self.folder)


def find(
    spec: ModelSpec, models: Path, stop: Event, tell: Tell, starter_name: str, cache: Path | None = None
) -> Source:
    """The model's files, its configuration and tokenizer; the starter's are made first where they are missing.

    `cache` is where the models of the Hub are, if not where all Hugging Face tools keep them. Raises
    UserFacingError when it is not there or cannot write text, Cancelled when `stop` is set.
    """
    name = starter_name if spec.source == STARTER else Path(spec.source).name
    with explained(name):
        folder, gguf = _locate(spec, models, stop, tell, starter_name, cache)
        return Source(Holding(_look_at(spec, folder, gguf, name), spec), folder, gguf)


def _locate(
    spec: ModelSpec, models: Path, stop: Event, tell: Tell, starter_name: str, cache: Path | None
) -> tuple[Path, str]:
    if spec.source == STARTER:
        return _make_starter(models, stop, tell, starter_name), ""
    path = Path(spec.source).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return path.parent, path.name
    if (path / "config.json").exists():
        return path, ""
    if not path.exists() and named_repo(spec.source) == spec.source:
        folder = snapshot_folder(spec.source, spec.revision, cache)
        return folder, spec.file or _only_gguf(folder)
    raise UserFacingError(
        f"No model found at {spec.source}.",
        "A model is a folder with a config.json, safetensors weights and a tokenizer; or a GGUF file.",
        "Give the path of one, a repository that is on disk as owner/name, or `starter`.",
    )


def _make_starter(models: Path, stop: Event, tell: Tell, name: str) -> Path:
    for each in starter.prepare_target(models, stop):
        tell(each)
    if name == STARTER_NAMES[0]:
        return starter.target_folder(models)
    for each in starter.prepare_assistant(models):
        tell(each)
    return starter.assistant_folder(models)


def _only_gguf(folder: Path) -> str:
    """The GGUF file of a snapshot that has no other weights; nothing where it has."""
    if any(folder.glob("*.safetensors")) or any(folder.glob("*.bin")):
        return ""
    files = sorted(each.name for each in folder.glob("*.gguf"))
    if len(files) > 1:
        raise UserFacingError(
            "It holds several GGUF files.", ", ".join(files), "Choose one of them by its name."
        )
    return files[0] if files else ""


def _look_at(spec: ModelSpec, folder: Path, gguf: str, name: str) -> Checkpoint:
    """Everything about a checkpoint but its weights. Raises UserFacingError when it cannot write text."""
    config = _gguf_config(folder, gguf) if gguf else read_config(folder)
    if (reason := refusal(config, name, spec.own_code)) is not None:
        raise UserFacingError(f"{name} could not be loaded.", reason, "Choose a model that writes text.")
    tokenizer = load_tokenizer(folder, gguf, spec.own_code)
    parameters = None if gguf else count_parameters(folder)
    return Checkpoint(name, config, tokenizer, parameters, spec.own_code)


def read_config(folder: Path) -> Mapping[str, Any]:
    """Raises ValueError when config.json is no object, OSError when it is absent."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ValueError("Its config.json holds no settings.")
    return config


def _gguf_config(folder: Path, gguf: str) -> Mapping[str, Any]:
    read = AutoConfig.from_pretrained(folder, gguf_file=gguf, local_files_only=True, trust_remote_code=False)
    config: dict[str, Any] = read.to_dict()
    return config


def load_tokenizer(folder: Path, gguf: str = "", own_code: bool = False) -> PreTrainedTokenizerBase:
    more = {"gguf_file": gguf} if gguf else {}
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=own_code, **more
    )
    return tokenizer


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turns what the libraries raise about a model's files into words for the person who chose them."""
    try:
        yield
    except (Cancelled, UserFacingError):
        raise
    except Exception as error:
        if out_of_memory(error):
            raise DoesNotFit(name, error) from error
        raise UserFacingError(
            f"{name} could not be loaded.",
            str(error),
            "Check its files and the free disk space, or choose another.",
        ) from error


class DoesNotFit(UserFacingError):
    """Memory ran out over a model."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(
            f"{name} does not fit into memory.",
            str(error),
            "Close other programs, choose a smaller model, or one in fewer bits.",
        )
