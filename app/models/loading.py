"""From a PairSpec to two models on their device."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

import psutil
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from app.engine.cached_model import CachedModel, ModelPair
from app.engine.encoder_decoder import with_source
from app.engine.fast_decoder import FastDecoder, arranged, make_fast
from app.engine.stateful import StatefulModel
from app.engine.text import ChatText
from app.errors import Cancelled, UserFacingError
from app.models import starter
from app.models.pair import Checkpoint, Shape, Verdict, count_parameters, is_stateful, judge, refusal, shape
from app.records import PairSpec, PairSummary, Progress

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


def load_pair(spec: PairSpec, models: Path, stop: Event) -> Generator[Progress, None, ModelPair]:
    """Loads both models, telling how far it is; returns the pair (the generator's value).

    `models` is the folder that converted models are kept in. Raises UserFacingError when a model cannot be
    had or the two do not fit together, Cancelled when `stop` is set.
    """
    transformers_logging.disable_progress_bar()
    target_folder, target = yield from _find(spec.target, models, stop, starter.TARGET_NAME)
    found = verdict = None
    if spec.assistant is not None:
        found = yield from _find(spec.assistant, models, stop, starter.ASSISTANT_NAME)
        verdict = _judge(target, found[1])
    device = best_device()
    dtype = faster_dtype(device) if spec.dtype == "auto" else DTYPES[spec.dtype]

    yield Progress("Loading the target", 0.7)
    writer = _load_cached(target_folder, target, device, dtype)
    _require_running(stop)
    helper = assistant = own_text = None
    if found is not None and verdict is not None:
        yield Progress("Loading the assistant", 0.85)
        folder, assistant = found
        helper = _load_cached(folder, assistant, device, dtype, writer)
        own_text = ChatText(assistant.tokenizer) if verdict.kind == "other-tokenizer" else None
        _require_running(stop)
    summary = PairSummary(
        target=target.name,
        assistant=None if assistant is None else assistant.name,
        device=device.type,
        dtype=str(dtype).removeprefix("torch."),
        context_length=writer.context_length,
        decoder="fast" if isinstance(writer, FastDecoder) else "transformers",
        notes=_notes(verdict),
    )
    eos_ids = _eos_ids(writer.model, target.tokenizer)
    pair = ModelPair(writer, helper, ChatText(target.tokenizer), eos_ids, summary, own_text)
    yield Progress("Warming up", 0.95)
    _warm_up(pair)
    return pair


def best_device() -> torch.device:
    """The accelerator of this machine, or its CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def faster_dtype(device: torch.device) -> torch.dtype:
    """bfloat16, except on processors that have to emulate it, which makes it several times slower: measured.

    The layer is too big for a processor's caches, as a model is, and the two types take turns, so that a
    busy machine does not decide.
    """
    if device.type != "cpu":
        return torch.bfloat16
    dtypes = (torch.bfloat16, torch.float32)
    products = [
        (arranged(torch.ones(4096, 2048, dtype=each)), torch.ones(1, 2048, dtype=each)) for each in dtypes
    ]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(12):
        for (product, row), taken in zip(products, times, strict=True):
            began = perf_counter()
            product(row)
            taken.append(perf_counter() - began)
    bfloat16, float32 = map(min, times)
    return torch.bfloat16 if bfloat16 <= 1.5 * float32 else torch.float32


def _locate(source: str, models: Path, stop: Event, starter_name: str) -> Generator[Progress, None, Path]:
    """The folder of a checkpoint; the starter's two are made first where they are missing."""
    if source == "starter":
        with _explained(starter_name):
            yield from starter.prepare_target(models, stop)
            if starter_name == starter.TARGET_NAME:
                return starter.target_folder(models)
            yield from starter.prepare_assistant(models)
            return starter.assistant_folder(models)
    folder = Path(source).expanduser()
    if not (folder / "config.json").exists():
        raise UserFacingError(
            f"No model found at {source}.",
            "A model is a folder with a config.json, safetensors weights and a tokenizer.",
            "Give the path of such a folder, or `starter`.",
        )
    return folder


def _find(
    source: str, models: Path, stop: Event, starter_name: str
) -> Generator[Progress, None, tuple[Path, Checkpoint]]:
    folder = yield from _locate(source, models, stop, starter_name)
    return folder, _look_at(folder, _name(source, starter_name))


def _name(source: str, starter_name: str) -> str:
    return starter_name if source == "starter" else Path(source).name


def _look_at(folder: Path, name: str) -> Checkpoint:
    """Everything about a checkpoint but its weights. Raises UserFacingError when it cannot write text."""
    with _explained(name):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("Its config.json holds no settings.")
        if (reason := refusal(config, name)) is not None:
            raise UserFacingError(f"{name} could not be loaded.", reason, "Choose a model that writes text.")
        return Checkpoint(name, config, _load_tokenizer(folder), count_parameters(folder))


def _judge(target: Checkpoint, assistant: Checkpoint) -> Verdict:
    """Raises UserFacingError for a pair that cannot work."""
    with _explained(assistant.name):
        verdict = judge(target, assistant)
    if verdict.kind == "refused":
        raise UserFacingError(
            "These two models cannot work together.",
            verdict.reason,
            f"Load {target.name} without an assistant, or choose another one.",
        )
    return verdict


def _notes(verdict: Verdict | None) -> tuple[str, ...]:
    """What the person should know of a pair that works: also that drafts are translated."""
    if verdict is None:
        return ()
    return (verdict.reason, *verdict.notes) if verdict.kind == "other-tokenizer" else verdict.notes


def _load_cached(
    folder: Path,
    seen: Checkpoint,
    device: torch.device,
    dtype: torch.dtype,
    target: CachedModel | None = None,
) -> CachedModel:
    """The model behind the face that its shape needs; an assistant is told its target."""
    kind = shape(seen.config)
    model = _load_model(folder, device, dtype, kind)
    if kind == "encoder-decoder" or (kind == "cross-attending decoder" and target is not None):
        return with_source(model, target)
    return StatefulModel(model) if is_stateful(seen.config) else _with_cache(model)


def _load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    with _explained(folder.name):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        return tokenizer


def _load_model(folder: Path, device: torch.device, dtype: torch.dtype, kind: Shape) -> PreTrainedModel:
    loader = AutoModelForSeq2SeqLM if kind == "encoder-decoder" else AutoModelForCausalLM
    with _explained(folder.name):
        model: Any
        model, report = loader.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
        if missing := report["missing_keys"]:  # transformers has filled them up at random
            raise ValueError(f"Its files lack {len(missing)} of its weights, {min(missing)} among them.")
        loaded: PreTrainedModel = model.to(device).eval()
        return loaded


def _with_cache(model: PreTrainedModel) -> CachedModel:
    """The quick path where it applies and its second copy of the weights leaves memory to spare."""
    weights = sum(each.numel() * each.element_size() for each in model.parameters())
    return make_fast(model) if psutil.virtual_memory().available > 2 * weights else CachedModel(model)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns what the libraries raise about a model's files into words for the person who chose them."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise UserFacingError(
            f"{name} does not fit into memory.",
            str(error),
            "Close other programs, or choose a smaller model.",
        ) from error
    except (Cancelled, UserFacingError):
        raise
    except Exception as error:
        raise UserFacingError(
            f"{name} could not be loaded.",
            str(error),
            "Check its files and the free disk space, or choose another.",
        ) from error


def _require_running(stop: Event) -> None:
    if stop.is_set():
        raise Cancelled


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every id that ends a reply: the model's own list and the tokenizer's."""
    configured = model.generation_config.eos_token_id if model.generation_config else None
    ids = configured if isinstance(configured, list) else [configured]
    return frozenset(each for each in [*ids, tokenizer.eos_token_id] if each is not None)


def _warm_up(pair: ModelPair) -> None:
    """One token through each model: the first pass allocates and chooses kernels, which no reply should wait for."""
    for model in (pair.target, pair.assistant):
        if model is not None:
            model.forward(model.begin([0]), keep=1)
            model.crop(0)
