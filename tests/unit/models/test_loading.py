"""How models are held once they are loaded: quantised, shared, spread, told by bytes, given back (H6, H8, P10)."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from app.engine.cached_model import ModelPair
from app.errors import Cancelled, UserFacingError
from app.models import loading, memory
from app.models.loading import load_pair
from app.models.sources import DoesNotFit, Source
from app.models.weights import held_bytes, release_memory
from app.records import ModelSpec, PairSpec, Progress, Weights
from tests.helpers import tiny
from tests.helpers.replies import emitted, plain, reply

WIDE = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16}
QUANTISED: tuple[Weights, ...] = ("int8", "nf4", "fp4")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tiny.model("llama", **WIDE), tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def assistant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tiny.noisy(tiny.model("llama", **WIDE), 0.3)
    return tiny.save(made, tmp_path_factory.mktemp("assistant"))


def load(
    target: ModelSpec, assistant: ModelSpec | None, tmp_path: Path, stop: Event | None = None
) -> tuple[ModelPair, list[Progress]]:
    heard: list[Progress] = []
    pair = load_pair(PairSpec(target, assistant), tmp_path / "models", stop or Event(), heard.append)
    return pair, heard


def spec(folder: Path, **how: Any) -> ModelSpec:
    return ModelSpec(str(folder), **{"weights": "float32", **how})


@pytest.mark.parametrize("weights", QUANTISED)
def test_quantised_pairs_write_assisted_what_the_target_writes_alone(
    weights: Weights, target: Path, assistant: Path, tmp_path: Path
) -> None:
    how = {"weights": weights, "compute": "float32"}
    pair, _ = load(spec(target, **how), spec(assistant, **how), tmp_path)
    assert (pair.summary.weights, pair.summary.assistant_weights) == (weights, weights)
    drafted = reply(pair, "Count the ships.", 24, temperature=0.0, draft_length=3)
    assert emitted(drafted) == plain(pair, "Count the ships.", 24, temperature=0.0)
    assert any(each.candidates for each in drafted)


def test_a_model_that_serves_as_both_is_loaded_once(target: Path, tmp_path: Path) -> None:
    pair, heard = load(spec(target), spec(target), tmp_path)
    assert pair.assistant is not None
    weights = [
        {each.data_ptr() for each in model.model.parameters()} for model in (pair.target, pair.assistant)
    ]
    assert weights[0] == weights[1]
    assert not any("assistant" in each.message for each in heard)
    alone, _ = load(spec(target), None, tmp_path)
    assert pair.summary.taken == alone.summary.taken


def test_held_in_two_ways_it_is_loaded_twice(target: Path, tmp_path: Path) -> None:
    pair, _ = load(spec(target), spec(target, weights="bfloat16"), tmp_path)
    assert pair.assistant is not None
    assert (pair.target.model.dtype, pair.assistant.model.dtype) == (torch.float32, torch.bfloat16)


def test_h8_the_assistant_is_placed_first_and_both_devices_are_told(
    target: Path, assistant: Path, tmp_path: Path
) -> None:
    pair, heard = load(spec(target), spec(assistant), tmp_path)
    told = [each.message for each in heard]
    first = next(place for place, each in enumerate(told) if each.startswith("Loading the assistant"))
    assert first < next(place for place, each in enumerate(told) if each.startswith("Loading the target"))
    assert (pair.summary.device, pair.summary.assistant_device) == ("cpu", "cpu")


def test_progress_is_by_bytes_and_only_grows(target: Path, tmp_path: Path) -> None:
    _, heard = load(spec(target), None, tmp_path)
    counted = [each for each in heard if " of " in each.message and "MB" in each.message]
    whole = sum(each.numel() * each.element_size() for each in tiny.model("llama", **WIDE).parameters())
    assert len(counted) > 10
    assert f"of {whole / 1e6:,.0f} MB" in counted[-1].message
    shares = [each.share for each in heard if each.share is not None]
    assert shares == sorted(shares)


def test_loading_is_cancelled_between_two_tensors(target: Path, tmp_path: Path) -> None:
    stop, heard = Event(), []

    def tell(progress: Progress) -> None:
        heard.append(progress)
        if "MB" in progress.message:
            stop.set()

    with pytest.raises(Cancelled):
        load_pair(PairSpec(spec(target), None), tmp_path / "models", stop, tell)
    assert len([each for each in heard if "MB" in each.message]) == 1


def test_unloaded_models_are_gone(target: Path, assistant: Path, tmp_path: Path) -> None:
    pair, _ = load(spec(target), spec(assistant), tmp_path)
    assert pair.assistant is not None
    kept = [weakref.ref(each) for model in (pair.target, pair.assistant) for each in model.model.parameters()]
    del pair
    gc.disable()
    try:
        release_memory()
    finally:
        gc.enable()
    assert all(each() is None for each in kept)


@pytest.mark.parametrize("short", ["target", "assistant"])
def test_h6_memory_that_runs_out_all_the_same_costs_the_assistant_first(
    short: str, target: Path, assistant: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_model, refusals = loading._load_model, [DoesNotFit("it", MemoryError())]

    def scarce(source: Source, *rest: Any) -> Any:
        if source.name == Path(target if short == "target" else assistant).name and refusals:
            raise refusals.pop()
        return load_model(source, *rest)

    monkeypatch.setattr(loading, "_load_model", scarce)
    pair, _ = load(spec(target), spec(assistant), tmp_path)
    assert pair.assistant is None and pair.summary.assistant is None
    culprit = target if short == "target" else assistant
    assert pair.summary.assistant_off == f"memory ran out over {culprit.name}"


def test_h6_a_target_without_room_is_an_error(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scarce(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", scarce)
    with pytest.raises(UserFacingError) as caught:
        load(spec(target), None, tmp_path)
    assert "memory" in caught.value.title and caught.value.remedy


def test_layers_spread_over_memory_and_disk_write_the_same(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = load(spec(target), None, tmp_path)
    size = sum(held_bytes(whole.target.model).values())
    monkeypatch.setattr(memory, "spread", lambda held, context: {"cpu": size // 2})
    parted, _ = load(spec(target, device="offload"), None, tmp_path)
    assert parted.summary.device == "cpu + disk"
    assert 0 < parted.summary.taken["cpu"] < size
    written = [plain(each, "Count the ships.", 12, temperature=0.0) for each in (parted, whole)]
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"device": "cuda:7"}, "This machine has no NVIDIA graphics card that torch can use number 7."),
        ({"device": "mps"}, "This machine has no Apple graphics processor."),
        ({"device": "offload", "weights": "nf4"}, "cannot be spread over memory and disk"),
    ],
)
def test_what_cannot_work_here_is_refused_in_words(
    how: dict[str, Any], reason: str, target: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserFacingError) as caught:
        load(spec(target, **how), None, tmp_path)
    assert reason in str(caught.value)


def test_a_gguf_file_is_not_quantised_once_more(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = loading.find
    monkeypatch.setattr(loading, "find", lambda *given: replace(find(*given), gguf="weights.gguf"))
    with pytest.raises(UserFacingError, match="at its full size"):
        load(spec(target, weights="nf4"), None, tmp_path)
