"""The starter pair in float32, converted once: into TANDEM_HOME where that is set, so that repeated runs are quick."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
import torch

from app.engine.cached_model import ModelPair
from app.models.loading import load_pair
from app.records import PairSpec

HOME = os.environ.get("TANDEM_HOME")  # read before the tests get folders of their own


@pytest.fixture(scope="session")
def starter_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the starter's two converted models are kept in."""
    return (Path(HOME) if HOME else tmp_path_factory.mktemp("starter")) / "models"


@pytest.fixture(scope="session")
def starter_pair(starter_models: Path) -> ModelPair:
    steps = load_pair(PairSpec(dtype="float32"), starter_models, Event())
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            pair: ModelPair = finished.value
            return pair


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine take many times longer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
