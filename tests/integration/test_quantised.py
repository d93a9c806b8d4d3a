"""The starter pair in fewer bits, and its memory against the estimate: in processes of their own, as people do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.starter

MINUTES = 240  # seconds

SAY = [sys.executable, "-m", "app", "say"]
MEASURE = """
import json, sys
from pathlib import Path
from threading import Event
import psutil
from app.engine.decoding import rounds
from app.models import memory
from app.models.loading import load_pair
from app.models.sources import find
from app.models.weights import release_memory
from app.records import STARTER_NAMES, DraftSettings, GenerationRequest, Message, ModelSpec, PairSpec, SamplingSettings

models, weights, context = Path(sys.argv[1]), sys.argv[2], 2048
spec = PairSpec(ModelSpec("starter", weights=weights), ModelSpec("starter", weights=weights), context)
held = [find(spec.target, models, Event(), print, name).held for name in STARTER_NAMES]
estimate = memory.estimate(*held, context, memory.free_memory())
import bitsandbytes
release_memory()  # what imports have left behind
process = psutil.Process()
before = process.memory_info().rss
pair = load_pair(spec, models, Event(), lambda _: None)
request = GenerationRequest(
    (Message("user", "Tell me of the lighthouse and its keeper. " * 210),),
    SamplingSettings(temperature=0.0), DraftSettings(draft_length=3), 24,
)
drafted = [len(each.candidates) for each in rounds(pair, request, Event(), lambda _: None)]
print(json.dumps({
    "estimated": estimate.total, "taken": process.memory_info().rss - before,
    "tensors": pair.summary.taken["cpu"],
    "weights": sum(each.weights + each.copy for each in estimate.needs), "drafted": sum(drafted),
}))
"""


@pytest.fixture
def environment(starter_home: Path) -> dict[str, str]:
    return {**os.environ, "TANDEM_HOME": str(starter_home), "OMP_NUM_THREADS": "1"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count a process's memory otherwise")
@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
def test_the_starter_pair_takes_what_was_estimated(
    environment: dict[str, str], starter_models: Path, weights: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", MEASURE, str(starter_models), weights],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=MINUTES,
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["drafted"]
    assert found["tensors"] == found["weights"]
    assert found["taken"] == pytest.approx(found["estimated"], rel=0.1)


@pytest.mark.parametrize("weights", ["int8", "nf4"])
def test_quantised_it_drafts_and_answers_in_the_terminal(environment: dict[str, str], weights: str) -> None:
    ended = subprocess.run(
        [
            *SAY,
            "Name three colours.",
            "--quantization",
            weights,
            *"--max-new-tokens 16 --temperature 0 --json".split(),
        ],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=MINUTES,
    )
    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    assert answer["text"].strip()
    assert any(each["candidates"] for each in answer["rounds"])
    assert "Warning" not in ended.stderr
    assert len(ended.stderr.splitlines()) < 10, ended.stderr


def test_a_card_that_is_not_there_is_refused_in_words(environment: dict[str, str]) -> None:
    ended = subprocess.run(
        [*SAY, "Hello", "--device", "cuda:9"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=MINUTES,
    )
    assert ended.returncode == 1
    assert "no NVIDIA graphics card" in ended.stderr and "Traceback" not in ended.stderr
