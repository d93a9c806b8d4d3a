"""The assistant while it is trained: a few Llama layers between the target's frozen embeddings and head.

Its parameters carry the names they have in transformers' `LlamaForCausalLM`, so exporting is only saving.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

MATRICES = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
NORMS = ("input_layernorm", "post_attention_layernorm")


class Assistant(nn.Module):
    """float32 parameters, bf16 arithmetic, and nothing that a training step does not need."""

    def __init__(
        self, config: LlamaConfig, weights: dict[str, torch.Tensor], embeddings: torch.Tensor
    ) -> None:
        super().__init__()
        self.config = config
        self.embeddings = embeddings.bfloat16()  # [vocab, hidden], frozen, also the head
        self.names = list(weights)
        self.weights = nn.ParameterDict(
            {_slot(name): nn.Parameter(value.float().clone()) for name, value in weights.items()}
        )
        frequencies = config.rope_parameters["rope_theta"] ** -(torch.arange(0, 64, 2) / 64)
        angles = torch.outer(torch.arange(2048), frequencies)
        self.cosine = torch.cat([angles.cos()] * 2, -1).bfloat16()  # [positions, head_dim]
        self.mask = torch.full((2048, 2048), float("-inf"), dtype=torch.bfloat16).triu(1)
        self.sine = torch.cat([-angles.sin(), angles.sin()], -1).bfloat16()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [rows, length] -> normed final hidden states [rows, length, hidden], bf16."""
        hidden = self.embeddings[tokens]
        for index in range(self.config.num_hidden_layers):
            hidden = hidden + self._attention(
                index, self._norm(hidden, f"model.layers.{index}.input_layernorm")
            )
            hidden = hidden + self._mlp(
                index, self._norm(hidden, f"model.layers.{index}.post_attention_layernorm")
            )
        return self._norm(hidden, "model.norm")

    def state(self) -> dict[str, torch.Tensor]:
        """Parameters under transformers' names, float32."""
        return {name: self.weights[_slot(name)].detach() for name in self.names}

    def _weight(self, name: str) -> torch.Tensor:
        return self.weights[_slot(f"{name}.weight")].bfloat16()

    def _norm(self, hidden: torch.Tensor, name: str) -> torch.Tensor:
        return F.rms_norm(hidden, (hidden.shape[-1],), self._weight(name), self.config.rms_norm_eps)

    def _attention(self, index: int, hidden: torch.Tensor) -> torch.Tensor:
        """Causal attention in plain matrix products: torch's fused one has a slow bf16 backward on CPUs.

        The query heads that share a key-value head are laid end to end, so keys and values are not repeated.
        """
        prefix = f"model.layers.{index}.self_attn"
        rows, length, _ = hidden.shape
        groups = self.config.num_key_value_heads

        def project(name: str) -> torch.Tensor:
            return F.linear(hidden, self._weight(f"{prefix}.{name}")).view(rows, length, -1, 64)

        query, key, value = (
            self._rotate(project("q_proj")),
            self._rotate(project("k_proj")),
            project("v_proj"),
        )
        query = query.transpose(1, 2).reshape(rows * groups, -1, 64)  # [rows * 3, 3 * length, 64]
        key = key.permute(0, 2, 3, 1).reshape(rows * groups, 64, length)
        mask = self.mask[:length, :length].repeat(query.shape[1] // length, 1)
        scores = torch.baddbmm(mask[None], query, key, alpha=0.125)
        attended = scores.softmax(-1) @ value.transpose(1, 2).reshape(rows * groups, length, 64)
        attended = attended.view(rows, -1, length, 64).transpose(1, 2).reshape(rows, length, -1)
        return F.linear(attended, self._weight(f"{prefix}.o_proj"))

    def _mlp(self, index: int, hidden: torch.Tensor) -> torch.Tensor:
        gate, up, down = (self._weight(f"model.layers.{index}.mlp.{n}_proj") for n in ("gate", "up", "down"))
        return F.linear(F.silu(F.linear(hidden, gate)) * F.linear(hidden, up), down)

    def _rotate(self, x: torch.Tensor) -> torch.Tensor:
        """Rotary embedding of [rows, length, heads, 64]."""
        length = x.shape[1]
        return x * self.cosine[:length, None] + x.roll(32, -1) * self.sine[:length, None]


def layers_of(model: LlamaForCausalLM, layers: list[int]) -> dict[str, torch.Tensor]:
    """The target's `layers`, renumbered from 0, and its final norm: where the assistant starts."""
    state = model.state_dict()
    weights = {
        f"model.layers.{new}.{part}.weight": state[f"model.layers.{old}.{part}.weight"]
        for new, old in enumerate(layers)
        for part in MATRICES + NORMS
    }
    return {**weights, "model.norm.weight": state["model.norm.weight"]}


def assistant_config(target: LlamaConfig, layer_count: int) -> LlamaConfig:
    """The target's configuration with fewer layers."""
    settings = target.to_dict()
    settings.update(num_hidden_layers=layer_count, tie_word_embeddings=True, dtype="bfloat16")
    for key in (
        "_name_or_path",
        "_model_name_or_path",
        "layer_types",
        "quantization_config",
        "transformers_version",
    ):
        settings.pop(key, None)
    return LlamaConfig(**settings)


def export(weights: dict[str, torch.Tensor], config: LlamaConfig, folder: Path) -> None:
    """Write config.json and model.safetensors (bf16, layers and final norm only), the latter in one move."""
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    partial = folder / "model.safetensors.partial"
    save_file({k: v.bfloat16().contiguous() for k, v in weights.items()}, partial, metadata={"format": "pt"})
    partial.chmod(0o644)
    partial.rename(folder / "model.safetensors")


def join(target: LlamaForCausalLM, folder: Path, dtype: torch.dtype) -> LlamaForCausalLM:
    """An ordinary model out of exported layers and the target's embeddings, as the application builds it."""
    model = LlamaForCausalLM(LlamaConfig.from_pretrained(folder)).to(dtype)
    weights = load_file(folder / "model.safetensors")
    weights["model.embed_tokens.weight"] = target.model.embed_tokens.weight
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"not an assistant of this target: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model.eval().requires_grad_(False)


def _slot(name: str) -> str:
    """ParameterDict keys may not hold dots."""
    return name.replace(".", "/")
