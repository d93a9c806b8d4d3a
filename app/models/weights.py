"""How a model's weights are held, and on which device: what there is to choose, and what of it works here."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from time import perf_counter
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from app.engine.fast_decoder import arranged
from app.records import ModelSpec, Weights

FORMATS: dict[Weights, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}
QUANTISED: tuple[Weights, ...] = ("int8", "nf4", "fp4")
OFFLOAD = "offload"
"""In place of a device: all of them, and the disk."""


def devices() -> list[str]:
    """What this machine can compute on, its best first."""
    found = (
        [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    return [*found, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def device_of(spec: ModelSpec) -> torch.device:
    """The device that a model goes to: the named one, or the best there is; that of its first layers if spread."""
    named = devices()[0] if spec.device in ("auto", OFFLOAD) else spec.device
    return torch.device("cuda:0" if named == "cuda" else named)


def why_not(weights: Weights, device: str) -> str | None:
    """Why weights cannot be held so on this device of this machine; None where they can."""
    known = devices()
    if device == OFFLOAD:
        return "Quantised weights cannot be spread over memory and disk." if weights in QUANTISED else None
    if device == "auto":
        device = known[0]
    if device not in known and not (device == "cuda" and known[0].startswith("cuda")):
        kind = {"cuda": "NVIDIA graphics card that torch can use", "mps": "Apple graphics processor"}
        return f"This machine has no {kind.get(device.split(':')[0], device)}{_number(device)}."
    if device == "mps" and weights == "float64":
        return "Apple graphics processors do not compute in float64."
    if device == "mps" and weights == "int8":
        return "bitsandbytes has no 8-bit kernels for Apple graphics processors."
    return None


def _number(device: str) -> str:
    _, _, index = device.partition(":")
    return f" number {index}" if index else ""


def format_of(spec: ModelSpec, device: torch.device) -> torch.dtype:
    """The number format of what is not quantised, which is also what a quantised layer computes in."""
    chosen = spec.compute if spec.weights in QUANTISED else spec.weights
    return faster_format(device) if chosen == "auto" else FORMATS[chosen]


def quantisation(spec: ModelSpec, compute: torch.dtype) -> BitsAndBytesConfig | None:
    """bitsandbytes' settings: 8 bits (arXiv 2208.07339), or 4 bits (arXiv 2305.14314); None where not quantised."""
    if spec.weights not in QUANTISED:
        return None
    settings: dict[str, Any] = {"load_in_8bit": True}
    if spec.weights != "int8":
        settings = {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": spec.weights,
            "bnb_4bit_use_double_quant": spec.double_quantisation,
            "bnb_4bit_compute_dtype": compute,
        }
    return BitsAndBytesConfig(**settings)


@lru_cache
def faster_format(device: torch.device) -> torch.dtype:
    """bfloat16, except on processors that have to emulate it, which makes it several times slower: measured.

    The layer is too big for a processor's caches, as a model is, and the two formats take turns, so that a
    busy machine does not decide.
    """
    if device.type != "cpu":
        return torch.bfloat16
    formats = (torch.bfloat16, torch.float32)
    products = [
        (arranged(torch.ones(4096, 2048, dtype=each)), torch.ones(1, 2048, dtype=each)) for each in formats
    ]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(12):
        for (product, row), taken in zip(products, times, strict=True):
            began = perf_counter()
            product(row)
            taken.append(perf_counter() - began)
    bfloat16, float32 = map(min, times)
    return torch.bfloat16 if bfloat16 <= 1.5 * float32 else torch.float32


def held_bytes(model: torch.nn.Module) -> dict[str, int]:
    """Bytes of all tensors of a model on each device; shared ones count once, and what lies on disk not at all."""
    held = {each.untyped_storage().data_ptr(): each for each in _tensors(model) if each.device.type != "meta"}
    sizes: dict[str, int] = {}
    for each in held.values():
        sizes[str(each.device)] = sizes.get(str(each.device), 0) + each.numel() * each.element_size()
    return sizes


def _tensors(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Weights and buffers, and what bitsandbytes keeps beside a quantised weight."""
    yield from model.buffers()
    yield from model.parameters()
    kept: list[Any] = []
    for weight in model.parameters():
        kept += [getattr(weight, "SCB", None), *_scales(getattr(weight, "quant_state", None))]
    for layer in model.modules():  # where the scales of 8 bits go in the first pass
        kept.append(getattr(getattr(layer, "state", None), "SCB", None))
    yield from (each for each in kept if isinstance(each, torch.Tensor))


def _scales(state: Any) -> Iterator[Any]:
    """The scales of a layer of 4 bits, and the scales of these."""
    if state is not None:
        yield from (state.absmax, state.code, getattr(state, "offset", None))
        yield from _scales(getattr(state, "state2", None))  # gone once a CPU has rearranged the layer


def release_memory() -> None:
    """Gives back what unloaded models held: Python's cycles, torch's cache, and the C library's free pages."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # glibc alone has it
            ctypes.CDLL(None).malloc_trim(0)
