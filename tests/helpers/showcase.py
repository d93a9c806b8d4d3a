"""A Hub and a disk with models as large as real ones, for pictures: their weights are claimed, not there.

Configurations are those of the real families; all share one small tokenizer, or have another where the verdict
is to be about that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch

from tests.helpers import tiny
from tests.helpers.hub_server import COMMIT, Hub, Repo

QWEN = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu",
    "max_position_embeddings": 32768, "tie_word_embeddings": True, "vocab_size": 151936,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
    "max_position_embeddings": 8192, "tie_word_embeddings": True, "vocab_size": 49152,
}  # fmt: skip
XLM_R = {"model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"]}
MAMBA = {"model_type": "mamba", "architectures": ["MambaForCausalLM"], "vocab_size": 50280}
OWN_CODE = {
    "model_type": "hedgehog", "architectures": ["HedgehogForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_hedgehog.C", "AutoModelForCausalLM": "modeling_hedgehog.M"},
}  # fmt: skip
CARD = """---
license: {licence}
---
# {name}

A model of the **{family}** family, tuned to follow instructions. It answers in complete sentences, keeps to the
language it was asked in, and can be told in a system message how to behave.

## What it was made for

- Short answers, summaries and rewriting
- Code in Python, JavaScript and SQL
- Structured replies, such as JSON

| Test | Score |
|---|---|
| Reading | 71.3 |
| Arithmetic | 62.8 |

![A chart](https://example.org/chart.png)
See <a href="https://example.org">the report</a> for the rest.
"""


@dataclass(frozen=True)
class Model:
    """`parameters` are weights of two bytes each; `words` chooses one of the two tokenizers."""

    config: Mapping[str, Any]
    parameters: int
    downloads: int = 1000
    licence: str = "apache-2.0"
    words: str = "one"
    gated: bool = False
    task: str = "text-generation"
    weights: str = "model.safetensors"
    code: bool = False


def _layers(width: int, inner: int, layers: int, heads: int, shared: int) -> dict[str, int]:
    return {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
    }


MODELS: dict[str, Model] = {
    "Qwen/Qwen2.5-7B-Instruct": Model(
        {**QWEN, **_layers(3584, 18944, 28, 28, 4), "vocab_size": 152064, "tie_word_embeddings": False},
        7_615_616_512,
        11_400_000,
    ),
    "Qwen/Qwen2.5-0.5B-Instruct": Model(
        {**QWEN, **_layers(896, 4864, 24, 14, 2)}, 494_032_768, 4_100_000
    ),
    "Qwen/Qwen2.5-1.5B-Instruct": Model(
        {**QWEN, **_layers(1536, 8960, 28, 12, 2)}, 1_543_714_304, 6_200_000
    ),
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": Model(
        {**LLAMA, **_layers(2048, 8192, 24, 32, 32)}, 1_711_376_384, 98_000, words="other"
    ),
    "HuggingFaceTB/SmolLM2-360M-Instruct": Model(
        {**LLAMA, **_layers(960, 2560, 32, 15, 5)}, 361_821_120, 310_000, words="other"
    ),
    "meta-llama/Llama-3.2-1B-Instruct": Model(
        {**LLAMA, **_layers(2048, 8192, 16, 32, 8), "vocab_size": 128256, "max_position_embeddings": 131072},
        1_235_814_400,
        5_300_000,
        "llama3.2",
        gated=True,
    ),
    "Qwen/Qwen2.5-72B-Instruct": Model(
        {**QWEN, **_layers(8192, 29568, 80, 64, 8), "vocab_size": 152064, "tie_word_embeddings": False},
        72_706_203_648,
        410_000,
        "other",
    ),
    "bartowski/Qwen2.5-7B-Instruct-GGUF": Model({}, 7_615_616_512, 65_000, weights="gguf"),
    "state-spaces/mamba-1.4b-hf": Model(MAMBA, 1_372_178_432, 21_000),
    "hedgehog-lab/hedgehog-1b": Model(OWN_CODE, 1_050_000_000, 1_200, "mit", code=True),
    "old-lab/story-writer-800m": Model(
        {**LLAMA, **_layers(1536, 4096, 24, 16, 16)}, 812_000_000, 340, "other", weights="pytorch_model.bin"
    ),
    "FacebookAI/xlm-roberta-base": Model(
        XLM_R, 278_885_778, 15_000_000, "mit", task="fill-mask"
    ),
}  # fmt: skip
QUANTISATIONS = {"Q4_K_M": 0.61, "Q5_K_M": 0.71, "Q8_0": 1.06}  # bytes a weight
HERE = (
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-0.5B-Instruct",
    "HuggingFaceTB/SmolLM2-360M-Instruct",
    "state-spaces/mamba-1.4b-hf",
    "hedgehog-lab/hedgehog-1b",
    "FacebookAI/xlm-roberta-base",
)
BYTES_TOLD = 2  # a weight


def fill(hub: Hub) -> None:
    """Puts all models on a Hub; a file that is claimed to be large comes empty."""
    for name, model in MODELS.items():
        files = _small_files(name, model)
        claimed = _weights(name, model)
        tags = (
            "gguf" if model.weights == "gguf" else "safetensors",
            f"license:{model.licence}",
        )
        hub.repos[name] = Repo(
            files | dict.fromkeys(claimed, b""),
            gated=model.gated,
            tags=tags,
            parameters=model.parameters,
            downloads=model.downloads,
            task=model.task,
            model_type=str(model.config.get("model_type", "qwen2")),
            format="BF16",
            claimed=claimed,
        )


def store(cache: Path, names: tuple[str, ...] = HERE, broken: str = "") -> None:
    """Puts models into a cache as every Hugging Face tool lays it out; `broken` lacks its weights."""
    for name in names:
        model = MODELS[name]
        folder = cache / f"models--{name.replace('/', '--')}"
        snapshot = folder / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(COMMIT)
        for file, content in _small_files(name, model).items():
            (snapshot / file).write_bytes(content)
        if name != broken:
            _write_sparse(snapshot / "model.safetensors", model.parameters)


@contextmanager
def memory_of(free: int) -> Iterator[None]:
    """A machine with so many bytes free, no graphics card, and a processor that is quicker in bfloat16."""
    with (
        patch("app.models.memory.free_memory", lambda held=None: {"cpu": free}),
        patch("app.models.memory._free_disk", lambda: 10 * free),
        patch("app.models.weights.devices", lambda: ["cpu"]),
        patch(
            "app.models.weights.faster_format", lambda device: torch.bfloat16
        ),  # else measured, and a matter of load
    ):
        yield


def _write_sparse(path: Path, parameters: int) -> None:
    """A header that names so many weights, and a hole in place of them."""
    size = BYTES_TOLD * parameters
    header = json.dumps({"weights": {"dtype": "BF16", "shape": [parameters], "data_offsets": [0, size]}})
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header.encode())
        file.truncate(8 + len(header) + size)


def _small_files(name: str, model: Model) -> dict[str, bytes]:
    if model.weights == "gguf":
        return {"README.md": _card(name, model)}
    files = {"README.md": _card(name, model), "config.json": json.dumps(dict(model.config)).encode()}
    if model.code:
        files |= {"configuration_hedgehog.py": b"", "modeling_hedgehog.py": b""}
    return files | _tokenizer_files(model.words)


def _card(name: str, model: Model) -> bytes:
    family = name.rpartition("/")[2].partition("-")[0]
    return CARD.format(name=name.rpartition("/")[2], family=family, licence=model.licence).encode()


@cache
def _tokenizer_files(words: str) -> dict[str, bytes]:
    made = tiny.tokenizer() if words == "one" else tiny.other_tokenizer()
    with TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        return {each.name: each.read_bytes() for each in Path(folder).iterdir()}


def _weights(name: str, model: Model) -> dict[str, int]:
    if model.weights != "gguf":
        return {model.weights: BYTES_TOLD * model.parameters}
    stem = name.rpartition("/")[2].removesuffix("-GGUF")
    return {f"{stem}-{kind}.gguf": int(model.parameters * each) for kind, each in QUANTISATIONS.items()}
