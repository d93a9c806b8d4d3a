"""The quick path behind CachedModel's face: the forward pass of a Llama-like model, written out for the CPU.

transformers' forward spends half of a small model's time between the matrix products and, in bfloat16, lets
each of them rearrange its weights anew. Here the projections that read the same input are one product, weights are
arranged once, and keys and values go into buffers that are there already. The logits equal transformers' up
to rounding, which is checked for every model at load.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from app.engine.cached_model import CachedModel, same_up_to_rounding, widened

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

Linear = Callable[[torch.Tensor], torch.Tensor]
"""[rows, in] -> [rows, out]."""

DTYPES = (torch.float32, torch.bfloat16)
"""What it was measured to be quicker in."""

Attention = Callable[[int, torch.Tensor], torch.Tensor]
"""Layer index, queries, keys and values of the new tokens -> what they attend to [rows, heads * head_dim]."""

SMALLEST_BUFFER = 512  # tokens; doubled as the sequence grows


@dataclass(slots=True)
class Layer:
    """One transformer block: its weights, and the keys and values [kv_heads, capacity, head_dim] it has seen."""

    norm: torch.Tensor
    qkv: Linear
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear
    keys: torch.Tensor
    values: torch.Tensor


class FastDecoder(CachedModel):
    """A CachedModel for what `make_fast` lets through. Holds a second copy of most weights: joined, rearranged."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model)
        config = model.config
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim, self._eps = config.head_dim, config.rms_norm_eps
        self._embeddings = model.get_input_embeddings().weight
        self._norm = model.model.norm.weight
        self._head = arranged(model.get_output_embeddings().weight)
        self._layers = [self._make_layer(block) for block in model.model.layers]
        self._capacity = 0

    def _make_layer(self, block: Any) -> Layer:
        attention, mlp = block.self_attn, block.mlp
        qkv = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
        nothing = qkv.new_empty(self._kv_heads, 0, self._head_dim)
        return Layer(
            norm=block.input_layernorm.weight,
            qkv=arranged(qkv),
            output=arranged(attention.o_proj.weight),
            mlp_norm=block.post_attention_layernorm.weight,
            gate_up=arranged(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])),
            down=arranged(mlp.down_proj.weight),
            keys=nothing,
            values=nothing,
        )

    def forward(self, ids: Sequence[int], keep: int = 0) -> torch.Tensor:
        return self.together([self], [ids], keep)[0]

    @torch.inference_mode()
    def together(
        self, models: Sequence[CachedModel], feeds: Sequence[Sequence[int]], keep: int = 0
    ) -> list[torch.Tensor]:
        """The tokens of all sequences go through the weights as one list; each attends to its own."""
        readers = [model for model in models if isinstance(model, FastDecoder)]
        passages = [reader._open(ids) for reader, ids in zip(readers, feeds, strict=True)]
        hidden = self._embeddings[torch.tensor([token for ids in feeds for token in ids])]  # [rows, hidden]
        lengths = [len(ids) for ids in feeds]
        for index, layer in enumerate(self._layers):
            qkv = torch.split(layer.qkv(self._normed(hidden, layer.norm)), lengths)
            attended = [each(index, new) for each, new in zip(passages, qkv, strict=True)]
            hidden = hidden + layer.output(torch.cat(attended) if len(attended) > 1 else attended[0])
            gate, up = layer.gate_up(self._normed(hidden, layer.mlp_norm)).chunk(2, dim=-1)
            hidden = hidden + layer.down(F.silu(gate) * up)
        for reader, ids in zip(readers, feeds, strict=True):
            reader.tokens.extend(ids)
        kept = [rows[-keep:] for rows in torch.split(hidden, lengths)]
        logits = widened(self._head(self._normed(torch.cat(kept) if len(kept) > 1 else kept[0], self._norm)))
        return list(torch.split(logits, [len(rows) for rows in kept]))

    def _open(self, ids: Sequence[int]) -> Attention:
        """Makes room for `ids` behind what was read, and returns how they attend."""
        start, end = len(self.tokens), len(self.tokens) + len(ids)
        self._reserve(end)
        mask = None if len(ids) == 1 else torch.ones(len(ids), end, dtype=torch.bool).tril(start)
        return partial(self._attend, start, end, mask)

    def _attend(
        self, start: int, end: int, mask: torch.Tensor | None, index: int, qkv: torch.Tensor
    ) -> torch.Tensor:
        """Attention of layer `index` for the tokens at start to end: qkv [rows, ...] -> [rows, heads * head_dim]."""
        layer, turned = self._layers[index], self._heads + self._kv_heads
        qkv = qkv.view(end - start, turned + self._kv_heads, self._head_dim)
        queries_keys = rotate(qkv[:, :turned], self._cos[start:end], self._sin[start:end])
        layer.keys[:, start:end] = queries_keys[:, self._heads :].transpose(0, 1)
        layer.values[:, start:end] = qkv[:, turned:].transpose(0, 1)
        attended = F.scaled_dot_product_attention(
            queries_keys[:, : self._heads].transpose(0, 1)[None],
            layer.keys[None, :, :end],
            layer.values[None, :, :end],
            attn_mask=mask,
            enable_gqa=True,
        )  # [1, heads, rows, head_dim]
        return attended[0].transpose(0, 1).reshape(end - start, -1)

    def crop(self, length: int) -> None:
        del self.tokens[length:]  # what is behind it in the buffers is overwritten

    def fork(self) -> FastDecoder:
        filled = len(self.tokens)
        other = copy.copy(self)
        other.tokens, other._capacity = list(self.tokens), filled
        other._layers = [
            replace(each, keys=each.keys[:, :filled], values=each.values[:, :filled]) for each in self._layers
        ]
        other._reserve(filled + 1)  # into buffers of its own
        return other

    def _make_first_layers(self, count: int) -> FastDecoder:
        other = copy.copy(self)
        other.tokens, other._capacity = [], 0
        other._layers = [
            replace(each, keys=each.keys[:, :0], values=each.values[:, :0]) for each in self._layers[:count]
        ]
        return other

    def _normed(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, (hidden.shape[-1],), weight, self._eps)

    def _reserve(self, length: int) -> None:
        """Makes room for `length` tokens in every layer's buffers, and their angles."""
        if length <= self._capacity:
            return
        self._capacity = max(SMALLEST_BUFFER, 2 * self._capacity, length)
        for layer in self._layers:
            layer.keys = F.pad(layer.keys, (0, 0, 0, self._capacity - layer.keys.shape[1]))
            layer.values = F.pad(layer.values, (0, 0, 0, self._capacity - layer.values.shape[1]))
        positions = torch.arange(self._capacity)[None]
        cos, sin = self.model.model.rotary_emb(self._embeddings, positions)  # each [1, capacity, head_dim]
        self._cos, self._sin = cos[0, :, None], sin[0, :, None]


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding (arXiv 2104.09864) of [rows, heads, head_dim]; cos and sin [rows, 1, head_dim]."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-second, first), dim=-1) * sin


def arranged(weight: torch.Tensor) -> Linear:
    """The product with a weight [out, in] that is, in bfloat16, put into the processor's preferred order once.

    In float32 the ordinary product is the quicker one (38 ms a token against 52, measured). The operators
    are private to torch: without them the ordinary product does as well.
    """
    weight = weight.detach()
    operators = torch.ops.mkldnn
    if weight.dtype != torch.bfloat16 or not hasattr(operators, "_linear_pointwise"):
        return lambda rows: F.linear(rows, weight)
    ordered = operators._reorder_linear_weight(weight, 1)
    return lambda rows: operators._linear_pointwise(rows, ordered, None, "none", [], "")


def make_fast(model: PreTrainedModel) -> CachedModel:
    """The quick path where this model is one of those it knows and passes the check, else the general one."""
    if model.device.type != "cpu" or not is_known(model.config, model.dtype):
        return CachedModel(model)
    fast = FastDecoder(model)
    return fast if _agrees(fast, CachedModel(model)) else CachedModel(model)


def is_known(config: PreTrainedConfig, dtype: torch.dtype) -> bool:
    """Whether a model so configured has the quick path on the CPU."""
    return (
        config.model_type == "llama"
        and dtype in DTYPES
        and config.hidden_act == "silu"
        and not (config.attention_bias or config.mlp_bias)
        and getattr(config, "quantization_config", None) is None
        and config.rope_parameters.get("rope_type") == "default"
    )


def _agrees(fast: CachedModel, reference: CachedModel) -> bool:
    """Compares the logits on arbitrary tokens, fed in pieces and with a rollback, as decoding does."""
    ids = [(7919 * i) % fast.vocabulary_size for i in range(24)]
    expected = reference.forward(ids)
    fast.forward([*ids[:9], 0, 1])
    fast.crop(9)
    found = torch.cat([fast.forward(ids[9:10]), fast.forward(ids[10:])])
    fast.crop(0)
    return same_up_to_rounding(found, expected[9:], fast.model.dtype)
