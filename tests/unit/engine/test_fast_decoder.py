"""The quick path computes what transformers computes, however the tokens are fed, and steps aside where it cannot."""

from __future__ import annotations

import random

import pytest
import torch

from app.engine import fast_decoder
from app.engine.cached_model import CachedModel, ModelPair
from app.engine.fast_decoder import FastDecoder, make_fast
from tests.helpers import tiny
from tests.helpers.replies import count, emitted, plain, reply

PROMPT = "The ships count the lighthouse, and the ships"


def close(one: torch.Tensor, other: torch.Tensor, tolerance: float = 1e-5) -> bool:
    return bool((one - other).norm() <= tolerance * other.norm())


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they have to grow."""
    monkeypatch.setattr(fast_decoder, "SMALLEST_BUFFER", 8)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-5), (torch.float32, 1e-5), (torch.bfloat16, 0.05)]
)
def test_logits_are_transformers_own(dtype: torch.dtype, tolerance: float) -> None:
    model = tiny.model("llama").to(dtype)
    ids = [i * 7 % 60 for i in range(30)]
    assert close(FastDecoder(model).forward(ids), CachedModel(model).forward(ids), tolerance)


def test_any_feeding_and_cropping_gives_the_same() -> None:
    model = tiny.model("llama")
    fast, reference = FastDecoder(model), CachedModel(model)
    chance = random.Random(5)
    for _ in range(60):
        ids = [chance.randrange(60) for _ in range(chance.randint(1, 9))]
        keep = chance.choice((0, 1))
        fast_logits, reference_logits = fast.forward(ids, keep), reference.forward(ids, keep)
        assert fast_logits.shape == reference_logits.shape
        assert close(fast_logits, reference_logits)
        length = chance.randint(0, len(fast.tokens))
        if chance.random() < 0.5:
            fast.crop(length)
            reference.crop(length)
        assert fast.tokens == reference.tokens


def test_assisted_equals_plain_on_the_quick_path() -> None:
    target = tiny.model("llama")
    general = tiny.pair(target, tiny.noisy(target, 0.1))
    assert general.assistant is not None
    quick = ModelPair(
        FastDecoder(target),
        FastDecoder(general.assistant.model),
        general.text,
        general.eos_ids,
        general.summary,
    )
    expected = plain(general, PROMPT, 40)
    assert plain(quick, PROMPT, 40) == expected
    for drafter in ("assistant", "lookup"):
        for draft_length in (1, 3, 8):
            finished = reply(quick, PROMPT, 40, drafter=drafter, draft_length=draft_length)
            assert emitted(finished) == expected
            assert count(finished, "num_judged") > 0


def test_a_pass_that_fails_leaves_the_decoder_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = FastDecoder(tiny.model("llama"))
    expected = fast.forward([1, 2, 3, 4])[-1:]
    fast.crop(3)
    with monkeypatch.context() as broken:
        broken.setattr(fast._layers[-1], "down", lambda rows: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fast.forward([9])
    assert close(fast.forward([4]), expected, 1e-12)


def test_what_it_knows_becomes_fast() -> None:
    assert isinstance(make_fast(tiny.model("llama").float()), FastDecoder)


@pytest.mark.parametrize("kind", [kind for kind in tiny.KINDS if kind != "llama"])
def test_other_families_take_the_general_path(kind: str) -> None:
    assert type(make_fast(tiny.model(kind).float())) is CachedModel


def test_a_wrong_result_takes_the_general_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_decoder, "rotate", lambda heads, cos, sin: heads)
    assert type(make_fast(tiny.model("llama").float())) is CachedModel


def test_without_the_private_operators_the_ordinary_product_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    model = tiny.model("llama").bfloat16()
    fast = FastDecoder(model)
    monkeypatch.undo()
    assert close(fast.forward([3, 1, 2]), CachedModel(model).forward([3, 1, 2]), 0.05)
