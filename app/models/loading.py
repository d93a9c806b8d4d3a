"""From a PairSpec to two models in memory."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    GgufConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from app.engine.cached_model import CachedModel, ModelPair
from app.engine.encoder_decoder import with_source
from app.engine.fast_decoder import FastDecoder, make_fast
from app.engine.stateful import StatefulModel
from app.engine.text import ChatText
from app.errors import Cancelled, UserFacingError
from app.models import memory
from app.models.pair import Verdict, is_stateful, judge, shape
from app.models.sources import DoesNotFit, Source, Tell, explained, find
from app.models.weights import (
    OFFLOAD,
    QUANTISED,
    device_of,
    format_of,
    held_bytes,
    quantisation,
    release_memory,
    why_not,
)
from app.records import STARTER_NAMES, PairSpec, PairSummary, Progress


def load_pair(spec: PairSpec, models: Path, stop: Event, tell: Tell, cache: Path | None = None) -> ModelPair:
    """Loads both models, telling how far it is.

    `models` is the folder that converted models are kept in, `cache` that of models of the Hub. The assistant
    goes first, so that it gets the quicker device, and is dropped first where memory runs out all the same
    (H6, H8). Raises UserFacingError when a model cannot be had, the two do not fit together or not into
    memory, and Cancelled when `stop` is set.
    """
    transformers_logging.disable_progress_bar()
    target = find(spec.target, models, stop, tell, STARTER_NAMES[0], cache)
    assistant = verdict = None
    if spec.assistant is not None:
        assistant = find(spec.assistant, models, stop, tell, STARTER_NAMES[1], cache)
        verdict = _judge(target, assistant)
    for each in (target, *([assistant] if assistant else [])):
        _require_possible(each)
    _require_room(target, assistant, spec.context)
    writer, helper, off = _load_both(target, assistant, spec.context, stop, tell)
    pair = ModelPair(
        writer,
        helper,
        ChatText(target.seen.tokenizer),
        _eos_ids(writer.model, target.seen.tokenizer),
        _summarise(target, assistant, writer, helper, off, verdict, spec.context),
        ChatText(assistant.seen.tokenizer)
        if helper and assistant and verdict and verdict.kind == "other-tokenizer"
        else None,
    )
    tell(Progress("Warming up", 0.95))
    with explained(target.name):
        _warm_up(pair)
    return pair


def without_assistant(pair: ModelPair, reason: str) -> ModelPair:
    """The target alone, which keeps what it has read; the summary says why."""
    summary = dataclasses.replace(
        pair.summary, assistant=None, assistant_device=None, assistant_weights=None, assistant_off=reason
    )
    return dataclasses.replace(pair, assistant=None, assistant_text=None, summary=summary)


def _load_both(
    target: Source, assistant: Source | None, context: int, stop: Event, tell: Tell
) -> tuple[CachedModel, CachedModel | None, str]:
    """Target, assistant, and why the assistant is missing although there should be one."""
    off, model = "", None
    shared = assistant is not None and assistant.same_weights(target)
    if assistant is not None and not shared:
        try:
            model = _load_model(assistant, context, stop, tell, Progress("Loading the assistant", 0.6), 0.1)
        except DoesNotFit:
            off = f"memory ran out over {assistant.name}"
    loading = Progress("Loading the target", 0.7)
    try:
        writer = _with_cache(target, _load_model(target, context, stop, tell, loading, 0.2))
    except DoesNotFit:
        if model is None:
            raise
        del model
        model, off = None, f"memory ran out over {target.name}"
        release_memory()
        writer = _with_cache(target, _load_model(target, context, stop, tell, loading, 0.2))
    if assistant is None or (model is None and not shared):
        return writer, None, off
    if shared and shape(target.seen.config) != "encoder-decoder":
        return writer, writer.fork(), ""
    return writer, _with_cache(assistant, writer.model if model is None else model, writer), ""


def _judge(target: Source, assistant: Source) -> Verdict:
    """Raises UserFacingError for a pair that cannot work."""
    with explained(assistant.name):
        verdict = judge(target.seen, assistant.seen)
    if verdict.kind == "refused":
        raise UserFacingError(
            "These two models cannot work together.",
            verdict.reason,
            f"Load {target.name} without an assistant, or choose another one.",
        )
    return verdict


def _require_possible(source: Source) -> None:
    spec = source.spec
    reason = why_not(spec.weights, spec.device)
    if source.gguf and spec.weights in QUANTISED:
        reason = "A GGUF file is loaded at its full size, which bitsandbytes cannot make smaller."
    if reason:
        raise UserFacingError("A model cannot be loaded so.", reason, "Leave its device and weights on auto.")


def _require_room(target: Source, assistant: Source | None, context: int) -> None:
    helper = assistant.held if assistant else None
    shared = assistant is not None and assistant.same_weights(target)
    found = memory.estimate(target.held, helper, context, memory.free_memory(), shared)
    memory.require_room(found, target.held, helper, context)


def _summarise(
    target: Source,
    assistant: Source | None,
    writer: CachedModel,
    helper: CachedModel | None,
    off: str,
    verdict: Verdict | None,
    context: int,
) -> PairSummary:
    helped = assistant if helper is not None else None
    notes = [each.note for each in (target, helped) if each is not None and each.note]
    return PairSummary(
        target=target.name,
        assistant=helped.name if helped else None,
        device=_where(writer.model),
        weights=_held(target, writer.model),
        context_length=writer.context_length,
        decoder="fast" if isinstance(writer, FastDecoder) else "transformers",
        notes=(*(_notes(verdict) if helped else ()), *notes),
        assistant_device=_where(helper.model) if helper else None,
        assistant_weights=_held(helped, helper.model) if helped and helper else None,
        assistant_off=off,
        taken=_taken([(target, writer), *([(helped, helper)] if helped and helper else [])], context),
    )


def _taken(models: list[tuple[Source, CachedModel]], context: int) -> dict[str, int]:
    """Bytes of weights on each device; a model that serves as both counts once."""
    whole: dict[str, int] = {}
    for source, each in {id(each.model): (source, each) for source, each in models}.values():
        held = held_bytes(each.model)
        if isinstance(each, FastDecoder):
            held["cpu"] = held.get("cpu", 0) + memory.need(source.held, context).copy
        for device, size in held.items():
            whole[device] = whole.get(device, 0) + size
    return whole


def _notes(verdict: Verdict | None) -> tuple[str, ...]:
    """What the person should know of a pair that works: also that drafts are translated."""
    if verdict is None:
        return ()
    return (verdict.reason, *verdict.notes) if verdict.kind == "other-tokenizer" else verdict.notes


def _where(model: PreTrainedModel) -> str:
    """The device, or all of them where the layers are spread."""
    spread = getattr(model, "hf_device_map", None) or {"": model.device}
    return " + ".join(
        sorted({str(torch.device(each)) if each != "disk" else "disk" for each in spread.values()})
    )


def _held(source: Source, model: PreTrainedModel) -> str:
    quantised = getattr(model, "is_quantized", False) and not source.gguf
    return source.spec.weights if quantised else str(model.dtype).removeprefix("torch.")


def _with_cache(source: Source, model: PreTrainedModel, target: CachedModel | None = None) -> CachedModel:
    """The model behind the face that its shape needs; an assistant is told its target."""
    kind = shape(source.seen.config)
    if kind == "encoder-decoder" or (kind == "cross-attending decoder" and target is not None):
        return with_source(model, target)
    if is_stateful(source.seen.config):
        return StatefulModel(model)
    if source.spec.device == OFFLOAD:
        return CachedModel(model)
    # The quick path only where its second copy of the weights leaves memory to spare.
    weights = sum(each.numel() * each.element_size() for each in model.parameters())
    return make_fast(model) if psutil.virtual_memory().available > 2 * weights else CachedModel(model)


def _load_model(
    source: Source, context: int, stop: Event, tell: Tell, begins: Progress, share: float
) -> PreTrainedModel:
    """Reads the weights; `share` is the part of the whole progress that this takes from `begins` on."""
    if stop.is_set():
        raise Cancelled
    tell(begins)
    kind = shape(source.seen.config)
    loader = AutoModelForSeq2SeqLM if kind == "encoder-decoder" else AutoModelForCausalLM
    device = device_of(source.spec)
    compute = format_of(source.spec, device)
    settings = _settings(source, context, device, compute)
    with explained(source.name), _watched(source, stop, tell, begins, share):
        model: Any
        model, report = loader.from_pretrained(
            source.folder,
            dtype=compute,
            local_files_only=True,
            trust_remote_code=source.runs_own_code,
            output_loading_info=True,
            **settings,
        )
        if missing := report["missing_keys"]:  # transformers has filled them up at random
            raise ValueError(f"Its files lack {len(missing)} of its weights, {min(missing)} among them.")
        loaded: PreTrainedModel = model.eval()
        if folder := settings.get("offload_folder"):
            weakref.finalize(loaded, shutil.rmtree, folder, ignore_errors=True)
        return loaded


def _settings(source: Source, context: int, device: torch.device, compute: torch.dtype) -> dict[str, Any]:
    """What from_pretrained is told of files, quantisation and device."""
    settings: dict[str, Any] = {} if source.spec.pickle else {"use_safetensors": True}
    if source.gguf:
        settings = {"gguf_file": source.gguf, "quantization_config": GgufConfig(dequantize=True)}
    elif (quantised := quantisation(source.spec, compute)) is not None:
        settings["quantization_config"] = quantised
    if source.spec.device == OFFLOAD:
        return settings | {
            "device_map": "auto",
            "max_memory": memory.spread(source.held, context),
            "offload_folder": _passing_folder(),
        }
    if device.type != "cpu" or "quantization_config" in settings:
        settings["device_map"] = {"": device}
    return settings


def _passing_folder() -> str:
    """For layers that find no room in memory and whose file cannot be read piece by piece."""
    return tempfile.mkdtemp(prefix="tandem-offload-")


@contextmanager
def _watched(source: Source, stop: Event, tell: Tell, begins: Progress, share: float) -> Iterator[None]:
    """Tells how far transformers is with the weights, by bytes, and breaks off between two of them."""
    sizes = source.tensor_bytes()
    whole = sum(sizes.values()) or 1

    def watch(factory: object, arguments: tuple[Any, ...], options: dict[str, Any]) -> Iterator[Any]:
        done = 0
        for each in arguments[0]:
            if stop.is_set():
                raise Cancelled
            yield each
            done += sizes.get(each[0], 0) if isinstance(each, tuple) else 0
            tell(
                Progress(
                    f"{begins.message}: {done / 1e6:,.0f} of {whole / 1e6:,.0f} MB",
                    _along(begins, share * done / whole),
                )
            )

    before = transformers_logging.set_tqdm_hook(watch)
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(before)


def _along(begins: Progress, more: float) -> float:
    return (begins.share or 0.0) + more


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
