"""The target's own first layers draft, straight into its head (self-speculation: LayerSkip, arXiv 2404.16710).

Layers, embeddings and head are shared with the target, which is never touched: the shallow model is a model
of its own that refers to them, and has a key-value cache of its own.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

from torch import nn

from app.errors import UserFacingError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Module = TypeVar("Module", bound=nn.Module)


def num_exit_layers(model: PreTrainedModel, asked: int) -> int:
    """How many layers draft: `asked`, or a third of the model's when that is 0.

    Raises UserFacingError when the model has no more layers than that.
    """
    layers = int(model.config.get_text_config().num_hidden_layers)
    if asked >= layers or layers < 2:
        raise UserFacingError(
            f"The target has {layers} layers, and an early exit must leave out at least one of them.",
            "",
            f"Choose an exit layer from 1 to {layers - 1}." if layers > 1 else "Choose another drafter.",
        )
    return asked or max(1, layers // 3)


def first_layers(model: PreTrainedModel, count: int) -> PreTrainedModel:
    """A model of the first `count` layers of `model`, which stays as it is. All weights are shared."""
    layers = int(model.config.get_text_config().num_hidden_layers)
    path = next(
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == layers
    )
    made = parent = _by_reference(model)
    *way, last = path.split(".")
    for name in way:
        child = _by_reference(parent.get_submodule(name))
        parent.add_module(name, child)
        parent = child
    blocks = parent.get_submodule(last)
    assert isinstance(blocks, nn.ModuleList)
    parent.add_module(last, blocks[:count])
    return made


def _by_reference(module: Module) -> Module:
    """A module with the same children and weights, whose children can be exchanged without changing the original's."""
    made = copy.copy(module)
    made._modules = dict(module._modules)
    return made
