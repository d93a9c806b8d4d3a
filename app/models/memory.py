"""How much memory a pair takes, from its configurations alone, and whether this machine has it (H6)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import psutil
import torch

from app.engine.fast_decoder import is_known
from app.errors import UserFacingError
from app.models.pair import Checkpoint, full_config
from app.models.sizes import buffer_length, cache_bytes, weight_bytes, work_bytes
from app.models.weights import OFFLOAD, QUANTISED, device_of, format_of
from app.records import ModelSpec, Weights
from app.words import size

LIGHTER: tuple[Weights, ...] = ("int8", "nf4")
NO_REMEDY = "Close other programs, choose smaller models, or a device with more memory."
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
        """What is free on a device; of spread layers' room, what lies on a single device is taken off."""
        if device != OFFLOAD:
            return self.free.get(device, 0)
        return (
            sum(each for name, each in self.free.items() if name != "mps")
            + _free_disk()
            - sum(each.total for each in self.needs if each.device != OFFLOAD)
        )


@dataclass(frozen=True, slots=True)
class Remedy:
    """A lighter way to load a pair, and the bytes that it takes."""

    words: str
    target: ModelSpec
    assistant: ModelSpec | None
    bytes: int

    def __str__(self) -> str:
        return f"{self.words}: {size(self.bytes)}."


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
    compute = format_of(held.spec, device)
    config = full_config(held.seen.config)
    text = config.get_text_config()
    context = min(context, getattr(text, "max_position_embeddings", None) or context)
    spread = held.spec.device == OFFLOAD
    plain = held.spec.weights not in QUANTISED and not spread
    fast = plain and device.type == "cpu" and is_known(config, compute)
    weights, copied = weight_bytes(held.seen, held.spec, compute, device.type)
    return Need(
        held.seen.name,
        OFFLOAD if spread else str(device),
        weights,
        copied if fast else 0,
        cache_bytes(held.seen, text, buffer_length(context) if fast else context, compute.itemsize),
        work_bytes(text, context, compute.itemsize),
    )


def free_memory(held: Mapping[str, int] | None = None) -> dict[str, int]:
    """Bytes that can still be had on each device; an Apple graphics processor shares the machine's.

    `held` is what a loaded pair takes of each, which it gives back before another one comes.
    """
    free = {"cpu": int(psutil.virtual_memory().available)}
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            kept = torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
            free[f"cuda:{index}"] = torch.cuda.mem_get_info(index)[0] + kept
    if torch.backends.mps.is_available():
        free["mps"] = free["cpu"]
    return {name: each + (held or {}).get(name, 0) for name, each in free.items()}


def spread(held: Holding, context: int) -> dict[int | str, int]:
    """The bytes of weights that may go to each device when layers are spread: what is free, less what else comes.

    Keys are as accelerate has them; caches and work are reckoned to the first device.
    """
    free = {name: max(0, each - _reserve(name)) for name, each in free_memory().items()}
    first = str(device_of(held.spec))
    beside = need(held, context)
    free[first] = max(0, free[first] - beside.cache - beside.work)
    if "mps" in free:
        return {"mps": free["mps"] // 2, "cpu": free["cpu"] // 2}  # one memory for both
    return {int(name.partition(":")[2]) if name != "cpu" else name: each for name, each in free.items()}


def require_room(found: Estimate, target: Holding, assistant: Holding | None, context: int) -> None:
    """Raises UserFacingError when the pair does not fit, with what would."""
    if found.fits:
        return
    parts = [f"{each.name} {size(each.total)} on {each.device}" for each in found.needs]
    free = ", ".join(
        f"{size(found.room(each))} on {each}" for each in dict.fromkeys(n.device for n in found.needs)
    )
    raise UserFacingError(
        "These models do not fit into memory."
        if assistant
        else f"{target.seen.name} does not fit into memory.",
        f"Needed at {context:,} tokens: {', '.join(parts)}. Free: {free}.",
        str(remedy(target, assistant, context, found.free) or NO_REMEDY),
    )


def remedy(
    target: Holding, assistant: Holding | None, context: int, free: Mapping[str, int]
) -> Remedy | None:
    """The first lighter way that fits; None where there is none."""
    for words, (first, second) in _lighter(target, assistant):
        found = estimate(first, second, context, free)
        if found.fits:
            return Remedy(words, first.spec, second.spec if second else None, found.total)
    return None


def _lighter(
    target: Holding, assistant: Holding | None
) -> Iterator[tuple[str, tuple[Holding, Holding | None]]]:
    if assistant is not None:
        yield "Leave out the assistant", (target, None)
    for weights in LIGHTER:
        light = Holding(target.seen, replace(target.spec, weights=weights, device="auto"))
        yield f"Take the target in {weights}", (light, assistant)
        if assistant is not None:
            both = Holding(assistant.seen, replace(assistant.spec, weights=weights, device="auto"))
            yield f"Take both in {weights}", (light, both)
            yield f"Take the target in {weights} and leave out the assistant", (light, None)
    everywhere = Holding(target.seen, replace(target.spec, weights="auto", device=OFFLOAD))
    yield "Spread the target over memory and disk (slow) and leave out the assistant", (everywhere, None)


def _free_disk() -> int:
    return shutil.disk_usage(tempfile.gettempdir()).free


def _reserve(device: str) -> int:
    return RESERVE + (CUDA_CONTEXT if device.startswith("cuda") else 0)
