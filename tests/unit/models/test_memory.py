"""Estimates against what is really allocated, and what is said where it does not fit (H6)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from app.engine.cached_model import CachedModel, ModelPair
from app.engine.fast_decoder import FastDecoder
from app.errors import UserFacingError
from app.models import memory
from app.models.inspection import Inspection, estimate_pair
from app.models.loading import load_pair
from app.models.memory import Estimate, Holding, Need
from app.models.pair import Checkpoint
from app.models.weights import held_bytes
from app.records import ModelSpec, PairSpec, Weights
from tests.helpers import showcase, tiny

GB = 1_000_000_000
SEVEN, HALF = "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for kind in ("llama", "gpt2", "opt", "gemma2-sliding", "t5"):
        made[kind] = tiny.save(tiny.model(kind), tmp_path_factory.mktemp(kind))
    wide = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "head_dim": 16,
    }  # bitsandbytes' blocks hold 64 weights
    made["wide llama"] = tiny.save(tiny.model("llama", **wide), tmp_path_factory.mktemp("wide"))
    return made


def load(spec: PairSpec, tmp_path: Path) -> ModelPair:
    return load_pair(spec, tmp_path / "models", Event(), lambda progress: None)


def hold(name: str, **how: Any) -> Holding:
    """A model of the showcase, as large as the real one."""
    model = showcase.MODELS[name]
    seen = Checkpoint(name.rpartition("/")[2], model.config, tiny.tokenizer(), model.parameters)
    return Holding(seen, ModelSpec(name, **how))


KINDS = ("llama", "gpt2", "opt", "gemma2-sliding", "t5")
FORMATS: tuple[Weights, ...] = ("float32", "bfloat16", "float16", "float64", "int8")


@pytest.mark.parametrize(
    ("kind", "weights"), [*product(KINDS, FORMATS), ("wide llama", "nf4"), ("wide llama", "fp4")]
)
def test_weights_are_estimated_to_the_byte(
    folders: dict[str, Path], tmp_path: Path, kind: str, weights: Weights
) -> None:
    spec = ModelSpec(str(folders[kind]), weights=weights, compute="float32")
    pair = load(PairSpec(spec, None), tmp_path)
    held = Holding(_checkpoint(folders[kind]), spec)
    assert memory.need(held, 128).weights == sum(held_bytes(pair.target.model).values())


@pytest.mark.parametrize("double", [True, False])
def test_scales_of_scales_are_counted(folders: dict[str, Path], tmp_path: Path, double: bool) -> None:
    spec = ModelSpec(str(folders["wide llama"]), weights="nf4", double_quantisation=double, compute="float32")
    pair = load(PairSpec(spec, None), tmp_path)
    held = Holding(_checkpoint(folders["wide llama"]), spec)
    assert memory.need(held, 128).weights == sum(held_bytes(pair.target.model).values())


def test_a_cache_is_estimated_to_the_byte(folders: dict[str, Path]) -> None:
    model = CachedModel(tiny.model("llama"))
    model.forward(model.begin(list(range(2, 102))), keep=1)
    layers = model.model(torch.tensor([list(range(2, 102))]), use_cache=True).past_key_values.layers
    held = sum(each.keys.nbytes + each.values.nbytes for each in layers)
    spec = ModelSpec(str(folders["llama"]), weights="float64")
    assert memory.need(Holding(_checkpoint(folders["llama"]), spec), 100).cache == held


def _checkpoint(folder: Path) -> Checkpoint:
    from app.models.sources import load_tokenizer, read_config

    return Checkpoint(folder.name, read_config(folder), load_tokenizer(folder))


def test_the_quick_paths_copies_are_counted(folders: dict[str, Path], tmp_path: Path) -> None:
    spec = ModelSpec(str(folders["llama"]), weights="float32")
    pair = load(PairSpec(spec, None), tmp_path)
    assert isinstance(pair.target, FastDecoder)
    needed = memory.need(Holding(_checkpoint(folders["llama"]), spec), 128)
    joined = sum(
        weight.nbytes
        for name, weight in pair.target.model.named_parameters()
        if any(each in name for each in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"))
    )
    assert needed.copy == joined > 0
    assert pair.summary.taken == {"cpu": needed.weights + needed.copy}


def test_both_models_and_their_caches_count_and_shared_weights_once() -> None:
    target, assistant = hold(SEVEN, weights="bfloat16"), hold(HALF, weights="bfloat16")
    free = {"cpu": 40 * GB}
    both = memory.estimate(target, assistant, 4096, free)
    assert [each.name for each in both.needs] == ["Qwen2.5-7B-Instruct", "Qwen2.5-0.5B-Instruct"]
    assert both.taken("cpu") == both.total == sum(each.total for each in both.needs)
    assert both.needs[0].cache == 2 * 28 * 4 * 128 * 4096 * 2  # keys and values x layers x heads x width
    longer = memory.estimate(target, assistant, 8192, free)
    assert longer.needs[0].cache == 2 * both.needs[0].cache
    shared = memory.estimate(target, target, 4096, free, shared=True)
    assert shared.needs[1].weights == 0 and shared.needs[1].cache == shared.needs[0].cache


def test_two_models_of_one_name_are_not_one_model() -> None:
    """The starter's target and assistant; a model that is both is counted once."""
    large, small = (Inspection(ModelSpec(), None, (), hold(name).seen) for name in (SEVEN, HALF))
    pair = estimate_pair(large, small, 4096, {"cpu": 40 * GB})
    same = estimate_pair(large, large, 4096, {"cpu": 40 * GB})
    assert pair is not None and pair.needs[1].weights > GB / 2
    assert same is not None and same.needs[1].weights == 0


@pytest.mark.parametrize(("weights", "bits"), [("bfloat16", 16), ("int8", 8), ("nf4", 4)])
def test_fewer_bits_take_less(weights: Weights, bits: int) -> None:
    seven = memory.need(hold(SEVEN, weights=weights, compute="bfloat16"), 4096)
    body = 6_525_621_760  # weights of its linear layers
    whole = 7_615_616_512
    assert seven.weights == pytest.approx(2 * (whole - body) + bits / 8 * body, rel=0.04)


def refused(target: Holding, assistant: Holding | None, free: int) -> UserFacingError:
    found = memory.estimate(target, assistant, 4096, {"cpu": free})
    with pytest.raises(UserFacingError) as caught:
        memory.require_room(found, target, assistant, 4096)
    return caught.value


@pytest.mark.parametrize(
    ("free", "remedy"),
    [
        (17, "Leave out the assistant"),
        (14, "Take the target in int8"),
        (9, "Take the target in nf4"),
        (6.9, "Take both in nf4"),
        (3, "Spread the target over memory and disk (slow) and leave out the assistant"),
    ],
)
def test_a_refusal_names_what_would_fit(free: float, remedy: str) -> None:
    target, assistant = hold(SEVEN, weights="bfloat16"), hold(HALF, weights="float32")
    with showcase.memory_of(int(free * GB)):
        error = refused(target, assistant, int(free * GB))
        assert error.remedy.startswith(remedy)
        found = memory.remedy(target, assistant, 4096, {"cpu": int(free * GB)})
        assert found is not None
        lighter = memory.estimate(
            replace(target, spec=found.target),
            assistant and found.assistant and replace(assistant, spec=found.assistant),
            4096,
            {"cpu": int(free * GB)},
        )
        assert lighter.fits and lighter.total == found.bytes


def test_where_nothing_fits_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_free_disk", lambda: 0)
    assert refused(hold(SEVEN), None, GB).remedy == memory.NO_REMEDY


def test_each_device_has_its_own_room() -> None:
    on_card = Need("target", "cuda:0", 8 * GB, 0, 0, 0)
    beside = Need("assistant", "cpu", 2 * GB, 0, 0, 0)
    assert Estimate((on_card, beside), {"cuda:0": 9 * GB, "cpu": 3 * GB}).fits
    assert not Estimate((on_card, beside), {"cuda:0": 7 * GB, "cpu": 30 * GB}).fits
    assert not Estimate((on_card, beside), {"cuda:0": 30 * GB, "cpu": 2 * GB}).fits


def test_h6_a_pair_without_room_is_refused_before_a_weight_is_read(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda held=None: {"cpu": 1000})
    monkeypatch.setattr(memory, "_free_disk", lambda: 0)
    (folders["llama"] / "model.safetensors").rename(tmp_path / "away")
    try:
        with pytest.raises(UserFacingError, match="fit into memory"):
            load(PairSpec.of(str(folders["llama"]), str(folders["gpt2"]), "float32"), tmp_path)
    finally:
        (tmp_path / "away").rename(folders["llama"] / "model.safetensors")
