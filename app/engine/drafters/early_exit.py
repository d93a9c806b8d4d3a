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


def num_exit_layers(num_layers: int, asked: int) -> int:
    """How many of the target's layers draft: `asked`, or a third of them when that is 0.

    Raises UserFacingError when the target has no more layers than that.
    """
    if asked >= num_layers or num_layers < 2:
        raise UserFacingError(
            f"The target has {num_layers} layers, and an early exit must leave out at least one of them.",
            "",
            f"Choose an exit layer from 1 to {num_layers - 1}."
            if num_layers > 1
            else "Choose another drafter.",
        )
    return asked or max(1, num_layers // 3)


def layers_of(model: PreTrainedModel) -> tuple[str, nn.ModuleList]:
    """The layers that write text, and where they are: of lists of modules in the decoder the outermost, longest."""
    decoder = model.get_decoder()
    inside = {id(module) for module in decoder.modules()}
    lists = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and id(module) in inside
    ]
    return min(lists, key=lambda item: (item[0].count("."), -len(item[1])))


def first_layers(model: PreTrainedModel, count: int) -> PreTrainedModel:
    """A model of the first `count` layers of `model`, which stays as it is. All weights are shared."""
    path, layers = layers_of(model)
    made = parent = _by_reference(model)
    *way, last = path.split(".")
    for name in way:
        child = _by_reference(parent.get_submodule(name))
        parent.add_module(name, child)
        parent = child
    parent.add_module(last, layers[:count])
    return made


def _by_reference(module: Module) -> Module:
    """A module with the same children and weights, whose children can be exchanged without changing the original's."""
    made = copy.copy(module)
    made._modules = dict(module._modules)
    return made
