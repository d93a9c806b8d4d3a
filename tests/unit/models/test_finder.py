"""Assistants for a target and pairs for a machine: ranked by what is known, with nothing left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.models.finder import COMFORTABLE, ORDER, candidates, known, pair_bytes, recommend
from app.models.measured import Measurements
from app.models.speed import Measured, best_length, predict, speed_up

TARGET = "Qwen/Qwen2.5-7B-Instruct"


@pytest.fixture
def measurements(tmp_path: Path) -> Measurements:
    return Measurements(tmp_path / "measured.json")


def test_the_speed_up_is_the_papers() -> None:
    assert speed_up(0.5, 1, 0.0) == pytest.approx(1.5)
    assert speed_up(0.8, 5, 0.1) == pytest.approx((1 + 0.8 + 0.64 + 0.512 + 0.4096 + 0.32768) / 1.5)
    assert speed_up(0.0, 5, 1.0) == pytest.approx(1 / 6)


def test_the_best_length_is_0_where_nothing_pays() -> None:
    assert best_length(0.3, 0.9) == 0
    assert best_length(0.8, 0.05) > best_length(0.6, 0.05) > 0


def test_a_prediction_covers_its_rates_and_says_what_it_assumes() -> None:
    found = predict(0.1)
    assert found.low == pytest.approx(speed_up(0.6, found.low_length, 0.1))
    assert found.high == pytest.approx(speed_up(0.8, found.high_length, 0.1))
    assert "60% to 80%" in found.assumptions and "2211.17192" in found.assumptions


def test_measured_acceptance_narrows_the_prediction() -> None:
    few, many = Measured(10, 7), Measured(10_000, 7_000)
    assert few.interval == pytest.approx((0.3968, 0.8922), abs=1e-3)  # Wilson's interval, by hand
    assert many.interval[1] - many.interval[0] < 0.02
    assert predict(0.1, many).high - predict(0.1, many).low < predict(0.1).high - predict(0.1).low
    assert "measured on this machine" in predict(0.1, many).assumptions


def test_the_list_is_sound() -> None:
    listed = known()
    assert len(listed.models) >= 40 and len(listed.pairs) >= 40
    for each in listed.pairs:
        target, assistant = listed.models[each.target], listed.models[each.assistant]
        assert target.parameters >= 2.5 * assistant.parameters and target.shape == assistant.shape
        assert each.verdict in ORDER


def test_candidates_are_ranked_and_none_is_dropped(measurements: Measurements) -> None:
    found = candidates(TARGET, 10**12, ["lab/other"], measurements)
    assert [each.repo for each in found] == [
        "Qwen/Qwen2.5-0.5B-Instruct",
        "Qwen/Qwen2.5-1.5B-Instruct",
        "lab/other",
    ]
    assert found[0].verdict == "padded" and found[0].prediction and found[0].prediction.low > 1
    assert found[2].verdict == "unknown" and found[2].present


def test_what_does_not_fit_comes_last(measurements: Measurements) -> None:
    models = known().models
    small, large = "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct"
    between = (
        pair_bytes(models[TARGET], models[small], "auto", 4096)
        + pair_bytes(models[TARGET], models[large], "auto", 4096)
    ) // 2
    found = candidates(TARGET, between, ["lab/other"], measurements)
    assert [(each.repo, each.fits) for each in found] == [(small, True), ("lab/other", None), (large, False)]


def test_a_derived_model_is_known_by_the_name_it_bears(measurements: Measurements) -> None:
    found = candidates("someone/Qwen2.5-7B-Instruct-abliterated", 10**12, [], measurements)
    assert found and TARGET in found[0].reason
    assert candidates("someone/else", 10**12, [], measurements) == []


def test_what_was_measured_here_is_used(measurements: Measurements) -> None:
    measurements.add(TARGET, "Qwen/Qwen2.5-0.5B-Instruct", 1000, 550)
    found = {each.repo: each for each in candidates(TARGET, 10**12, [], measurements)}
    first = found["Qwen/Qwen2.5-0.5B-Instruct"]
    assert first.prediction and first.prediction.measured and first.prediction.rates[0] < 0.55


@pytest.mark.parametrize("free", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_recommended_pairs_fit_the_machine(free: int, device: str) -> None:
    found = recommend({"cpu": free * 10**9, device: free * 10**9})
    assert len(found) <= 3 and (free < 4 or found)
    for each in found:
        assert each.bytes <= COMFORTABLE * free * 10**9
        assert not each.target.gated and each.target.chat
        assert str(each.target.licence) in each.reason
    assert len({(each.target.repo, each.weights) for each in found}) == len(found)


def test_a_graphics_card_counts_before_the_processor() -> None:
    found = recommend({"cpu": 60 * 10**9, "cuda:0": 4 * 10**9})
    assert all(each.bytes < 4 * 10**9 for each in found)


def test_measurements_add_up_and_last(measurements: Measurements, tmp_path: Path) -> None:
    assert measurements.of("a", "b") is None
    for _ in range(2):
        measurements.add("a", "b", 10, 6)
    measurements.add("a", "c", 0, 0)
    again = Measurements(tmp_path / "measured.json")
    assert again.of("a", "b") == Measured(20, 12) and again.of("a", "c") is None


@pytest.mark.parametrize("content", ["{", "[1]", '{"a + b": [1]}', '{"a + b": null}'])
def test_a_damaged_file_is_put_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / "measured.json").write_text(content)
    measurements = Measurements(tmp_path / "measured.json")
    assert (tmp_path / "measured.damaged").read_text() == content
    measurements.add("a", "b", 2, 1)
    assert Measurements(tmp_path / "measured.json").of("a", "b") == Measured(2, 1)


def test_a_disk_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    measurements = Measurements(tmp_path / "no" / "such" / "measured.json")
    measurements.add("a", "b", 2, 1)
    assert measurements.of("a", "b") == Measured(2, 1)
