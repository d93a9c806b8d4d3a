"""Many conversations decoded at once with the target: one token per row and step, rows of different lengths.

A row that has finished is given its next conversation at once, so no step is spent on padding. Weights are
bf16 and prepacked for oneDNN; attention is `decode_attention.cpp`, compiled on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load
from transformers import LlamaForCausalLM

Linear = Callable[[torch.Tensor], torch.Tensor]


@cache
def native() -> ModuleType:
    """The compiled attention kernel."""
    source = Path(__file__).with_name("decode_attention.cpp")
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
    return load("starter_decode_attention", [str(source)], extra_cflags=flags)


def packed_linear(weight: torch.Tensor, rows: int) -> Linear:
    """`x -> x @ weight.T` for [rows, in] bf16, the weight in the layout oneDNN prefers for that many rows."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16().contiguous(), rows)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


class _Layer:
    """One decoder layer: fused projections and its part of the cache."""

    def __init__(self, layer: torch.nn.Module, rows: int, capacity: int) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        fused_qkv = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
        self.qkv = packed_linear(fused_qkv, rows)
        self.out = packed_linear(attention.o_proj.weight, rows)
        self.gate_up = packed_linear(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]), rows)
        self.down = packed_linear(mlp.down_proj.weight, rows)
        self.attention_norm = layer.input_layernorm.weight.bfloat16()
        self.mlp_norm = layer.post_attention_layernorm.weight.bfloat16()
        self.keys = torch.zeros(rows, 3, 64, capacity, dtype=torch.bfloat16)
        self.values = torch.zeros(rows, 3, capacity, 64, dtype=torch.bfloat16)


class BatchDecoder:
    """The target with `rows` independent caches of `capacity` tokens."""

    def __init__(self, model: LlamaForCausalLM, rows: int, capacity: int) -> None:
        self.rows, self.capacity = rows, capacity
        self.epsilon = model.config.rms_norm_eps
        self.embeddings = model.model.embed_tokens.weight.bfloat16()
        self.final_norm = model.model.norm.weight.bfloat16()
        self.head = packed_linear(self.embeddings, rows)
        self.layers = [_Layer(layer, rows, capacity) for layer in model.model.layers]
        frequencies = model.config.rope_parameters["rope_theta"] ** -(torch.arange(0, 64, 2) / 64)
        angles = torch.outer(torch.arange(capacity), frequencies)
        self.cosine, self.sine = angles.cos(), angles.sin()  # [capacity, 32]

    @torch.inference_mode()
    def step(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Append `tokens` [rows] at `positions` [rows]; return the normed final hidden states [rows, 576]."""
        cosine, sine = self.cosine[positions], self.sine[positions]
        hidden = self.embeddings[tokens]
        for layer in self.layers:
            qkv = layer.qkv(self._norm(hidden, layer.attention_norm))
            attended = native().decode_attention(qkv, cosine, sine, layer.keys, layer.values, positions)
            hidden = hidden + layer.out(attended)
            gate, up = layer.gate_up(self._norm(hidden, layer.mlp_norm)).chunk(2, -1)
            hidden = hidden + layer.down(F.silu(gate) * up)
        return self._norm(hidden, self.final_norm)

    @torch.inference_mode()
    def top(self, hidden: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The `count` best tokens of every row, best first: ids and float32 logits, both [rows, count].

        bf16 logits tie often (their spacing near 20 is 0.125), so the few that matter are computed again.
        """
        ids = self.head(hidden).topk(count).indices
        logits = (self.embeddings[ids].float() @ hidden.float()[:, :, None]).squeeze(-1)
        order = logits.argsort(descending=True)
        return ids.gather(1, order), logits.gather(1, order)

    def copy_prefix(self, row: int, prefix: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Put saved keys and values (see `save_prefix`) at the start of a row's cache."""
        for layer, (keys, values) in zip(self.layers, prefix, strict=True):
            layer.keys[row, :, :, : keys.shape[-1]] = keys
            layer.values[row, :, : keys.shape[-1]] = values

    def save_prefix(self, row: int, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys [3, 64, length] and values [3, length, 64] of a row, per layer."""
        return [
            (layer.keys[row, :, :, :length].clone(), layer.values[row, :, :length].clone())
            for layer in self.layers
        ]

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, (hidden.shape[-1],), weight, self.epsilon)
