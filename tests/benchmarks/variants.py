"""Several replies in one batch against one after another, on the quick path and on transformers' forward.

Sampled, assisted, the same seeds on all sides; tokens of all replies over the seconds of the whole, prompt
included. The ways take turns on each prompt and their medians are summed.

    python -m tests.benchmarks.variants [--counts 2 4 8] [--prompts N] [--tokens N] [--json]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from app.engine.cached_model import CachedModel, ModelPair
from tests.benchmarks import common


def one_after_another(pair: ModelPair, prompt: str, tokens: int, count: int, **settings: Any) -> None:
    for seed in range(count):
        common.reply(pair, prompt, tokens, seed=seed, **settings)


def in_one_batch(pair: ModelPair, prompt: str, tokens: int, count: int, **settings: Any) -> None:
    common.reply(pair, prompt, tokens, seed=0, num_variants=count, **settings)


def general(pair: ModelPair) -> ModelPair:
    """The same weights on transformers' forward, whose batches are padded and masked."""
    assert pair.assistant is not None
    return replace(pair, target=CachedModel(pair.target.model), assistant=CachedModel(pair.assistant.model))


def measure(pair: ModelPair, prompts: list[str], tokens: int, count: int, repeats: int) -> dict[str, float]:
    """Tokens per second of each way."""
    endless = tuple((token, -1e9) for token in sorted(pair.eos_ids))  # every reply is as long as it may be
    settings: dict[str, Any] = {"temperature": 0.7, "draft_length": 3, "logit_bias": endless}
    total: dict[str, float] = {}
    for prompt in prompts:
        ways: dict[str, Callable[[], None]] = {
            "alone": partial(one_after_another, pair, prompt, tokens, count, **settings),
            "batch": partial(in_one_batch, pair, prompt, tokens, count, **settings),
            "general batch": partial(in_one_batch, general(pair), prompt, tokens, count, **settings),
        }
        for name, seconds in common.interleaved(ways, repeats, warm_ups=1).items():
            total[name] = total.get(name, 0.0) + seconds
    return {name: len(prompts) * count * tokens / seconds for name, seconds in total.items()}


def main() -> None:
    parser = common.parser(__doc__)
    common.add_pair_options(parser, tokens=32)
    parser.add_argument("--counts", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    options = parser.parse_args()
    pair = common.load(options.target, options.assistant, options.dtype)
    prompts = common.choose_prompts(options.questions, options.prompts or 3)
    found = {
        count: measure(pair, prompts, options.tokens, count, options.repeats) for count in options.counts
    }
    lines = [
        f"{count} replies: "
        + ", ".join(
            f"{name} {speed:.1f} tokens/s ({speed / each['alone']:.2f} x)" for name, speed in each.items()
        )
        for count, each in found.items()
    ]
    settings = {"prompts": len(prompts), "dtype": options.dtype, "tokens": options.tokens}
    common.show(settings | {"tokens_per_second": found} | common.machine(), lines, options.json)


if __name__ == "__main__":
    main()
