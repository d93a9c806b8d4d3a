"""How much memory a pair takes, from its configurations alone, and whether this machine has it (H6)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any

import psutil
import torch
from bitsandbytes.functional import has_avx512bf16
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.base import get_keys_to_not_convert
from transformers.quantizers.quantizers_utils import should_convert_module

from app.engine.fast_decoder import SMALLEST_BUFFER, is_known
from app.engine.opening import PREFILL_CHUNK
from app.errors import UserFacingError
from app.models.pair import Checkpoint, full_config, is_stateful, shape
from app.models.weights import QUANTISED, device_of, format_of
from app.records import ModelSpec, Weights

BLOCK, SUPERBLOCK = 64, 256  # weights to a scale, and scales to a scale of scales: bitsandbytes' 4 bits
LIGHTER: tuple[Weights, ...] = ("int8", "nf4")
RESERVE = 300_000_000  # bytes that a machine keeps for itself
CUDA_CONTEXT = 500_000_000  # bytes of kernels and workspace that the first use of a card takes: an assumption


@dataclass(frozen=True, slots=True)
class Holding:
    """A model and how it would be held."""

    seen: Checkpoint
    spec: ModelSpec


@dataclass(frozen=True, slots=True)
class Need:
    """What one model takes on its device, in bytes."""

    name: str
    device: str
    weights: int
    copy: int  # the quick path's rearranged weights
    cache: int  # keys and values
    work: int  # the largest pass

    @property
    def total(self) -> int:
        return self.weights + self.copy + self.cache + self.work


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a pair takes beside what is free, in bytes per device."""

    needs: tuple[Need, ...]  # of the target, then of the assistant
    free: Mapping[str, int]

    def taken(self, device: str) -> int:
        return sum(each.total for each in self.needs if each.device == device)

    @property
    def total(self) -> int:
        return sum(each.total for each in self.needs)

    @property
    def fits(self) -> bool:
        return all(
            self.taken(each.device) + _reserve(each.device) <= self.room(each.device) for each in self.needs
        )

    def room(self, device: str) -> int:
        return self.free.get(device, 0)


def estimate(
    target: Holding, assistant: Holding | None, context: int, free: Mapping[str, int], shared: bool = False
) -> Estimate:
    """The joint estimate at a sequence of `context` tokens; `shared` weights count once."""
    needs = [need(target, context)]
    if assistant is not None:
        own = need(assistant, context)
        needs.append(replace(own, weights=0, copy=0) if shared else own)
    return Estimate(tuple(needs), free)


def need(held: Holding, context: int) -> Need:
    """What one model takes; a context longer than it was made for is cut to that."""
    device = device_of(held.spec)
    compute = format_of(held.spec.weights, device)
    config = full_config(held.seen.config)
    text = config.get_text_config()
    context = min(context, getattr(text, "max_position_embeddings", None) or context)
    fast = device.type == "cpu" and held.spec.weights not in QUANTISED and is_known(config, compute)
    weights, copied = _weights(held, compute, device.type)
    return Need(
        held.seen.name,
        str(device),
        weights,
        copied if fast else 0,
        _cache(held.seen, text, _buffer(context) if fast else context, compute.itemsize),
        _work(text, context, compute.itemsize),
    )


def free_memory() -> dict[str, int]:
    """Bytes that can still be had on each device; an Apple graphics processor shares the machine's."""
    free = {"cpu": int(psutil.virtual_memory().available)}
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            kept = torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
            free[f"cuda:{index}"] = torch.cuda.mem_get_info(index)[0] + kept
    if torch.backends.mps.is_available():
        free["mps"] = free["cpu"]
    return free


def require_room(found: Estimate, target: Holding, assistant: Holding | None, context: int) -> None:
    """Raises UserFacingError when the pair does not fit, with what would."""
    if found.fits:
        return
    parts = [f"{each.name} {gigabytes(each.total)} on {each.device}" for each in found.needs]
    free = ", ".join(
        f"{gigabytes(found.room(each))} on {each}" for each in dict.fromkeys(n.device for n in found.needs)
    )
    raise UserFacingError(
        "These models do not fit into memory."
        if assistant
        else f"{target.seen.name} does not fit into memory.",
        f"Needed at {context:,} tokens: {', '.join(parts)}. Free: {free}.",
        remedy(target, assistant, context, found.free),
    )


def remedy(target: Holding, assistant: Holding | None, context: int, free: Mapping[str, int]) -> str:
    """The first lighter way that fits, in words."""
    for words, holdings in _lighter(target, assistant):
        found = estimate(*holdings, context, free)
        if found.fits:
            return f"{words}: {gigabytes(found.total)}."
    return "Close other programs, choose smaller models, or a device with more memory."


def _lighter(
    target: Holding, assistant: Holding | None
) -> Iterator[tuple[str, tuple[Holding, Holding | None]]]:
    if assistant is not None:
        yield f"Load {target.seen.name} without an assistant", (target, None)
    for weights in LIGHTER:
        light = Holding(target.seen, replace(target.spec, weights=weights))
        yield f"Load the target in {weights}", (light, assistant)
        if assistant is not None:
            both = Holding(assistant.seen, replace(assistant.spec, weights=weights))
            yield f"Load both in {weights}", (light, both)
            yield f"Load the target in {weights} and without an assistant", (light, None)


def gigabytes(number: int) -> str:
    return f"{number / 1e9:.2f} GB" if number >= 1e7 else f"{number / 1e6:.2f} MB"


def _reserve(device: str) -> int:
    return RESERVE + (CUDA_CONTEXT if device.startswith("cuda") else 0)


def _weights(held: Holding, compute: torch.dtype, device: str) -> tuple[int, int]:
    """Bytes of the weights, and of what the quick path copies of them."""
    if held.seen.needs_own_code:  # its layers are not known without running it
        return _by_count(held.seen.parameters or 0, held.spec.weights, compute), 0
    weights = held.spec.weights if held.spec.weights in QUANTISED else "auto"
    packed = device == "cpu" and has_avx512bf16()
    return _by_layers(
        json.dumps(dict(held.seen.config), sort_keys=True),
        weights,
        compute,
        held.spec.double_quantisation,
        packed,
    )


def _by_count(parameters: int, weights: Weights, compute: torch.dtype) -> int:
    bits = {"int8": 8, "nf4": 4.5, "fp4": 4.5}.get(weights, 8 * compute.itemsize)
    return int(parameters * bits / 8)


@lru_cache(maxsize=64)
def _by_layers(
    config: str, weights: Weights, compute: torch.dtype, double: bool, packed: bool
) -> tuple[int, int]:
    """Adds up the tensors of a model that is built without any memory for them."""
    model = _skeleton(json.loads(config), compute)
    whole = set() if weights == "auto" else _quantised_layers(model)
    size = sum(
        each.numel() * each.element_size()
        for name, each in [*model.named_parameters(), *model.named_buffers()]
        if name.removesuffix(".weight") not in whole
    )
    for name in whole:
        rows, columns = _matrix(model.get_submodule(name))
        size += _eight_bits(rows, columns) if weights == "int8" else _four_bits(rows, columns, double, packed)
    return size, sum(_copied(name, each) for name, each in model.named_parameters(remove_duplicate=False))


def _skeleton(config: Mapping[str, Any], compute: torch.dtype) -> PreTrainedModel:
    loader = AutoModelForSeq2SeqLM if shape(config) == "encoder-decoder" else AutoModelForCausalLM
    with torch.device("meta"):
        model: PreTrainedModel = loader.from_config(full_config(config), dtype=compute)
    return model


def _quantised_layers(model: PreTrainedModel) -> set[str]:
    kept = [*get_keys_to_not_convert(model), *(model._keep_in_fp32_modules or ())]
    return {
        name
        for name, each in model.named_modules()
        if (type(each) is nn.Linear or isinstance(each, Conv1D)) and should_convert_module(name, kept)
    }


def _matrix(layer: Any) -> tuple[int, int]:
    """Outputs and inputs of a layer."""
    rows, columns = layer.weight.shape
    return (columns, rows) if isinstance(layer, Conv1D) else (rows, columns)


def _eight_bits(rows: int, columns: int) -> int:
    """A byte a weight and a float32 scale a row."""
    return rows * columns + 4 * rows


def _four_bits(rows: int, columns: int, double: bool, packed: bool) -> int:
    """Half a byte a weight, a scale to every BLOCK of them, and 16 float32 values to choose from.

    A scale is a float32; or a byte, with scales of its own, 256 float32 values and an offset; or, as CPUs with
    bfloat16 instructions rearrange them in the first pass, a bfloat16.
    """
    numbers = rows * columns
    scales = ceil(numbers / BLOCK)
    size = ceil(numbers / 2) + 16 * 4
    if packed and rows % 32 == 0 and columns % BLOCK == 0:
        return size + 2 * scales + (4 if double else 0)
    if double:
        return size + scales + 4 * (ceil(scales / SUPERBLOCK) + 256 + 1)
    return size + 4 * scales


def _copied(name: str, weight: torch.Tensor) -> int:
    """What the quick path keeps of a weight beside the model's own: joined ones, and in bfloat16 all products."""
    kind = name.removesuffix(".weight").rpartition(".")[2]
    joined = kind in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
    arranged = weight.dtype == torch.bfloat16 and kind in ("o_proj", "down_proj", "lm_head")
    return weight.numel() * weight.element_size() if joined or arranged else 0


def _buffer(context: int) -> int:
    """Tokens that the quick path's doubling buffers have room for."""
    size = SMALLEST_BUFFER
    while size < context:
        size *= 2
    return size


def _cache(seen: Checkpoint, text: Any, context: int, itemsize: int) -> int:
    """Keys and values of every layer at full length, an encoder's too where there is one."""
    if is_stateful(seen.config):
        return 0
    heads = text.num_attention_heads
    head = getattr(text, "head_dim", None) or getattr(text, "d_kv", None) or text.hidden_size // heads
    shared = getattr(text, "num_key_value_heads", None) or heads
    layers = (
        getattr(text, "num_decoder_layers", None)
        or getattr(text, "decoder_layers", None)
        or text.num_hidden_layers
    )
    sides = 2 if shape(seen.config) == "encoder-decoder" else 1
    return int(2 * sides * layers * shared * head * context * itemsize)


def _work(text: Any, context: int, itemsize: int) -> int:
    """The largest pass: a chunk of the prompt through one layer, and the float32 logits of a draft."""
    rows = min(PREFILL_CHUNK, context)
    inner = getattr(text, "intermediate_size", None) or getattr(text, "ffn_dim", None) or 4 * text.hidden_size
    return int(rows * (6 * text.hidden_size + 3 * inner) * itemsize + 17 * text.vocab_size * 4)
