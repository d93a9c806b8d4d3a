"""The target's first layers draft, and the target is what it was, whatever happens (D11)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from app.engine.cached_model import CachedModel
from app.engine.drafters.early_exit import first_layers, layers_of
from app.engine.fast_decoder import FastDecoder
from app.errors import UserFacingError
from tests.helpers import tiny
from tests.helpers.replies import count, emitted, plain, reply

PROMPT = "The ships count the lighthouse, and the ships"


def anatomy(model: PreTrainedModel) -> tuple[Any, ...]:
    """Everything that a draft could have changed."""
    modules = [(name, id(module)) for name, module in model.named_modules()]
    weights = [
        (name, id(weight), weight.clone()) for name, weight in model.state_dict(keep_vars=True).items()
    ]
    return modules, weights, model.config.to_dict(), model.generation_config.to_dict()


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    weights = zip(one[1], other[1], strict=True)
    return (
        one[0] == other[0]
        and one[2:] == other[2:]
        and all(a[:2] == b[:2] and torch.equal(a[2], b[2]) for a, b in weights)
    )


@pytest.mark.parametrize("kind", [*tiny.KINDS, "t5", "bart"])
def test_a_model_of_the_first_layers_shares_the_weights(kind: str) -> None:
    model = tiny.model(kind)
    before = anatomy(model)
    shallow = first_layers(model, 1)
    name, layers = layers_of(shallow)
    assert len(layers) == 1
    assert layers[0] is layers_of(model)[1][0]
    own = {id(weight) for weight in model.parameters()}
    assert {id(weight) for weight in shallow.parameters()} < own
    assert same(before, anatomy(model)), name


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_it_computes_what_the_hidden_state_behind_those_layers_gives(kind: str) -> None:
    """Leaving out the rest by hand: the second layer returns what it was given."""
    model = tiny.model(kind)
    ids = [5, 9, 200, 31, 7]
    found = CachedModel(first_layers(model, 1)).forward(ids)
    _, layers = layers_of(model)
    skipping = layers[1].register_forward_hook(
        lambda module, given, result: (given[0], *result[1:]) if isinstance(result, tuple) else given[0]
    )
    expected = model(torch.tensor([ids])).logits[0]
    skipping.remove()
    assert torch.allclose(found, expected)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_draft_that_fails_in_the_middle_leaves_the_target_as_it_was(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny.model(kind)
    pair = tiny.pair(model)
    expected = plain(tiny.pair(tiny.model(kind)), PROMPT, 16)
    before = anatomy(model)
    shallow = pair.target.first_layers(1)
    forward, passes = shallow.forward, []

    def failing(ids: Any, keep: int = 0) -> Any:
        passes.append(ids)
        if len(passes) == 5:
            raise RuntimeError("out of luck")
        return forward(ids, keep)

    monkeypatch.setattr(shallow, "forward", failing)
    with pytest.raises(RuntimeError, match="out of luck"):
        reply(pair, PROMPT, 16, drafter="early-exit", draft_length=3)
    assert same(before, anatomy(model))
    monkeypatch.undo()
    assert plain(pair, PROMPT, 16) == expected
    assert emitted(reply(pair, PROMPT, 16, drafter="early-exit", draft_length=3)) == expected


def test_the_exit_layer_is_the_one_asked_for() -> None:
    model = tiny.model("llama", num_hidden_layers=6)
    for asked, layers in ((0, 2), (1, 1), (5, 5)):
        pair = tiny.pair(model)
        finished = reply(pair, PROMPT, 8, drafter="early-exit", exit_layer=asked)
        assert list(pair.target._first_layers) == [layers]
        assert {each.source for each in finished} <= {"early-exit", None}


def test_more_layers_agree_more() -> None:
    model = tiny.model("llama", num_hidden_layers=6)
    accepted = [
        count(reply(tiny.pair(model), PROMPT, 60, drafter="early-exit", exit_layer=layers), "num_accepted")
        for layers in (1, 5)
    ]
    assert accepted[0] < accepted[1]


@pytest.mark.parametrize("asked", [2, 9])
def test_an_exit_behind_the_last_layer_is_refused(asked: int) -> None:
    with pytest.raises(UserFacingError, match="has 2 layers") as caught:
        reply(tiny.pair(tiny.model("llama")), PROMPT, 8, drafter="early-exit", exit_layer=asked)
    assert caught.value.remedy == "Choose an exit layer from 1 to 1."


def test_the_fast_decoder_exits_early_too() -> None:
    model = tiny.model("llama", num_hidden_layers=4)
    ids = [5, 9, 200, 31, 7]
    fast = FastDecoder(model)
    fast.forward([1, 2, 3])
    shallow = fast.first_layers(2)
    assert isinstance(shallow, FastDecoder)
    expected = CachedModel(first_layers(model, 2)).forward(ids)
    assert torch.allclose(shallow.forward(ids), expected, rtol=1e-4, atol=1e-5)
    assert fast.tokens == [1, 2, 3]
    assert fast.first_layers(2) is shallow
