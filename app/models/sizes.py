"""The bytes of a model's tensors, from its configuration alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import Any

import torch
from bitsandbytes.functional import has_avx512bf16
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.base import get_keys_to_not_convert
from transformers.quantizers.quantizers_utils import should_convert_module

from app.engine.fast_decoder import SMALLEST_BUFFER
from app.engine.opening import PREFILL_CHUNK
from app.models.pair import Checkpoint, full_config, is_stateful, shape
from app.models.weights import QUANTISED
from app.records import ModelSpec, Weights

BLOCK, SUPERBLOCK = 64, 256  # weights to a scale, and scales to a scale of scales: bitsandbytes' 4 bits


def weight_bytes(seen: Checkpoint, spec: ModelSpec, compute: torch.dtype, device: str) -> tuple[int, int]:
    """Bytes of the weights, and of what the quick path copies of them."""
    if seen.needs_own_code:  # its layers are not known without running it
        return _by_count(seen.parameters or 0, spec.weights, compute), 0
    weights = spec.weights if spec.weights in QUANTISED else "auto"
    packed = device == "cpu" and has_avx512bf16()
    config = json.dumps(dict(seen.config), sort_keys=True)
    return _by_layers(config, weights, compute, spec.double_quantisation, packed)


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
        each.numel() * (4 if _stays_in_float32(model, name) else each.element_size())
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


def _stays_in_float32(model: PreTrainedModel, name: str) -> bool:
    """What transformers does not hold in float16 because its numbers grow too large there, as in T5."""
    kept = model._keep_in_fp32_modules or ()
    return model.dtype == torch.float16 and any(each in name.split(".") for each in kept)


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


def buffer_length(context: int) -> int:
    """Tokens that the quick path's doubling buffers have room for."""
    size = SMALLEST_BUFFER
    while size < context:
        size *= 2
    return size


def cache_bytes(seen: Checkpoint, text: Any, context: int, itemsize: int) -> int:
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


def work_bytes(text: Any, context: int, itemsize: int) -> int:
    """The largest pass: a chunk of the prompt through one layer, and the float32 logits of a draft."""
    rows = min(PREFILL_CHUNK, context)
    inner = getattr(text, "intermediate_size", None) or getattr(text, "ffn_dim", None) or 4 * text.hidden_size
    return int(rows * (6 * text.hidden_size + 3 * inner) * itemsize + 17 * text.vocab_size * 4)
