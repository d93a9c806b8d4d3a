"""What recording both models' alternatives costs: the same replies with and without, taking turns.

Decoding seconds of all prompts; the ratio is of their medians over the repeats.

    python -m tests.benchmarks.recording [--prompts N] [--tokens N] [--repeats N] [--json]
"""

from __future__ import annotations

from functools import partial
from typing import Any

from app.engine.cached_model import ModelPair
from app.engine.stats import Statistics
from tests.benchmarks import common

MODES: dict[str, dict[str, Any]] = {"greedy": {}, "sampled": {"temperature": 0.7, "seed": 1}}


def decode_seconds(pair: ModelPair, prompt: str, tokens: int, **settings: Any) -> float:
    return Statistics.of(common.reply(pair, prompt, tokens, **settings)).decode_seconds


def measure(
    pair: ModelPair, prompts: list[str], tokens: int, repeats: int, **settings: Any
) -> dict[str, float]:
    """The summed medians of decoding seconds over the prompts, with recording and without."""
    total = {"on": 0.0, "off": 0.0}
    for prompt in prompts:
        contestants = {
            name: partial(decode_seconds, pair, prompt, tokens, alternatives=name == "on", **settings)
            for name in total
        }
        for name, seconds in common.medians(contestants, repeats, warm_ups=0).items():
            total[name] += seconds
    return total


def main() -> None:
    parser = common.parser(__doc__)
    common.add_pair_options(parser, tokens=64)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--draft-length", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    pair = common.load(options.target, options.assistant, options.dtype)
    prompts = common.choose_prompts(options.questions, options.prompts or 6)
    common.reply(pair, prompts[0], 8)  # warm-up
    found = {
        name: measure(
            pair, prompts, options.tokens, options.repeats, draft_length=options.draft_length, **sampling
        )
        for name, sampling in MODES.items()
    }
    costs = {name: each["on"] / each["off"] - 1 for name, each in found.items()}
    lines = [f"{name}: {cost:+.1%} of the decoding time" for name, cost in costs.items()]
    settings = {"prompts": len(prompts), "dtype": options.dtype, "draft_length": options.draft_length}
    common.show(settings | {"seconds": found, "cost": costs} | common.machine(), lines, options.json)


if __name__ == "__main__":
    main()
