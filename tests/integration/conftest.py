"""The starter pair in float32, loaded once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
import torch

from app.engine.cached_model import ModelPair
from app.models.loading import load_pair
from app.records import PairSpec


@pytest.fixture(scope="session")
def starter_models(starter_home: Path) -> Path:
    """The folder that the starter's two converted models are kept in."""
    return starter_home / "models"


@pytest.fixture(scope="session")
def starter_pair(starter_models: Path) -> ModelPair:
    spec = PairSpec.of("starter", "starter", "float32")
    return load_pair(spec, starter_models, Event(), lambda progress: None)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine take many times longer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
