"""What fewer bits cost the target: its perplexity on a fixed text, the memory that it takes, and its speed.

The text is one of our own, in tests/benchmarks/passage.txt, read in one pass. The formats take turns in generating,
plainly and greedily, the same number of tokens.

    python -m tests.benchmarks.quantisation [--json] [--target PATH] [--tokens N]
"""

from __future__ import annotations

from functools import partial
from math import exp
from pathlib import Path
from threading import Event
from typing import get_args

import torch

from app.engine.cached_model import ModelPair
from app.models.loading import load_pair
from app.records import ModelSpec, PairSpec, Weights
from app.resources import data_folder
from tests.benchmarks.common import interleaved, machine, parser, reply, show

PASSAGE = Path(__file__).with_name("passage.txt")
FORMATS: tuple[Weights, ...] = ("float32", "bfloat16", "float16", "int8", "nf4", "fp4")
assert set(FORMATS) < set(get_args(Weights))


def load(target: str, weights: Weights) -> ModelPair:
    spec = PairSpec(ModelSpec(target, weights=weights), None)
    return load_pair(spec, data_folder() / "models", Event(), lambda progress: None)


def perplexity(pair: ModelPair, text: str) -> float:
    """The exponential of the mean negative log-probability of each token but the first."""
    ids = pair.text.tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
    with torch.inference_mode():
        logits = pair.target.model(ids).logits[0, :-1].float()
    return exp(torch.nn.functional.cross_entropy(logits, ids[0, 1:]).item())


def write(pair: ModelPair, tokens: int) -> None:
    reply(pair, "Describe a harbour at dawn.", tokens, temperature=0.0, drafter="none", stop_strings=())


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--target", default="starter")
    options.add_argument("--tokens", type=int, default=32, help="of each timed reply (default: 32)")
    options.add_argument("--repeats", type=int, default=5)
    arguments = options.parse_args()
    pairs = {weights: load(arguments.target, weights) for weights in FORMATS}
    text = PASSAGE.read_text(encoding="utf-8")
    seconds = interleaved(
        {weights: partial(write, pair, arguments.tokens) for weights, pair in pairs.items()},
        arguments.repeats,
    )
    rows = {
        weights: {
            "perplexity": perplexity(pair, text),
            "megabytes": sum(pair.summary.taken.values()) / 1e6,
            "speed": seconds["float32"] / seconds[weights],
        }
        for weights, pair in pairs.items()
    }
    lines = [f"{'':10}{'perplexity':>12}{'MB':>8}{'speed against float32':>24}"]
    lines += [
        f"{weights:10}{row['perplexity']:12.2f}{row['megabytes']:8.0f}{row['speed']:22.2f} x"
        for weights, row in rows.items()
    ]
    show({"formats": rows, **machine()}, lines, arguments.json)


if __name__ == "__main__":
    main()
