"""What the benchmarks share: prompts, a loaded pair, one reply, and medians of interleaved runs."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

import torch

from app.engine.cached_model import ModelPair
from app.engine.decoding import rounds
from app.models.loading import load_pair
from app.records import PairSpec, Round, Weights
from app.resources import data_folder
from tests.helpers.prompts import PROMPTS
from tests.helpers.replies import request


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", action="store_true", help="one JSON object instead of text")
    return made


def add_pair_options(to: argparse.ArgumentParser, tokens: int) -> None:
    to.add_argument("--target", default="starter")
    to.add_argument("--assistant", default="starter")
    to.add_argument("--questions", type=Path, help="Spec-Bench's questions.jsonl instead of our own prompts")
    to.add_argument("--prompts", type=int, help="how many prompts (default: 24)")
    to.add_argument("--tokens", type=int, default=tokens, help=f"longest reply (default: {tokens})")


def load(target: str, assistant: str, weights: Weights) -> ModelPair:
    spec = PairSpec.of(target, assistant, weights)
    return load_pair(spec, data_folder() / "models", Event(), lambda progress: None)


def choose_prompts(questions: Path | None, count: int | None) -> list[str]:
    """`count` prompts (24 when None): of our own, evenly spread over their kinds, or of Spec-Bench's."""
    if questions is not None:
        return _first_turns(questions, count or len(PROMPTS))
    own = list(PROMPTS.values())
    count = min(count or len(own), len(own))
    return [own[place * len(own) // count] for place in range(count)]


def _first_turns(questions: Path, count: int) -> list[str]:
    """The first question of every category, then the second, and so on (as the starter's own measurement)."""
    categories: dict[str, list[str]] = {}
    for line in questions.read_text(encoding="utf-8").splitlines():
        question = json.loads(line)
        categories.setdefault(question["category"], []).append(question["turns"][0])
    rows = zip_longest(*categories.values())
    return [turn for row in rows for turn in row if turn is not None][:count]


def category_of(questions: Path) -> dict[str, str]:
    """The category of each of Spec-Bench's first turns."""
    lines = questions.read_text(encoding="utf-8").splitlines()
    return {question["turns"][0]: question["category"] for question in map(json.loads, lines)}


def reply(pair: ModelPair, prompt: str, tokens: int, **settings: Any) -> list[Round]:
    """A reply from a cold cache, greedy unless `settings` (named flatly) say otherwise."""
    forget(pair)
    return list(rounds(pair, request(prompt, tokens, **settings), Event()))


def forget(pair: ModelPair) -> None:
    """Empties both caches."""
    for model in (pair.target, pair.assistant):
        if model is not None:
            model.crop(0)


def token_ids(finished: Sequence[Round]) -> list[int]:
    return [token.id for each in finished for token in each.emitted]


def interleaved(
    contestants: Mapping[str, Callable[[], Any]], repeats: int, warm_ups: int = 1
) -> dict[str, float]:
    """The median seconds of each contestant, start to end, taking turns."""
    return medians({name: partial(_timed, run) for name, run in contestants.items()}, repeats, warm_ups)


def medians(
    contestants: Mapping[str, Callable[[], float]], repeats: int, warm_ups: int = 1
) -> dict[str, float]:
    """The median of what each contestant tells, taking turns, so that a busy moment hits all of them alike."""
    told: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(warm_ups + repeats):
        for name, run in contestants.items():
            figure = run()
            if turn >= warm_ups:
                told[name].append(figure)
    return {name: statistics.median(each) for name, each in told.items()}


def _timed(run: Callable[[], Any]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def machine() -> dict[str, Any]:
    """What the figures depend on besides the program."""
    return {"torch": torch.__version__, "threads": torch.get_num_threads()}


def show(figures: Mapping[str, Any], lines: Sequence[str], as_json: bool) -> None:
    """Prints the figures for a program, or in lines for a person."""
    print(json.dumps(figures) if as_json else "\n".join(lines))
