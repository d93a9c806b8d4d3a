"""How far the target agrees with the starter assistant: acceptance by position, and tokens per round.

Greedy replies to our own 24 prompts, or to 24 of Spec-Bench's spread over its categories (--questions PATH),
at each draft length. The figures do not depend on the machine's speed.

    python -m tests.benchmarks.starter_acceptance [--questions PATH] [--lengths 1 2 3 5] [--json]
"""

from __future__ import annotations

from typing import Any

from app.engine.cached_model import ModelPair
from app.engine.stats import Statistics
from tests.benchmarks import common


def measure(pair: ModelPair, prompts: list[str], tokens: int, length: int) -> dict[str, Any]:
    stats = Statistics()
    for prompt in prompts:
        for each in common.reply(pair, prompt, tokens, draft_length=length):
            stats = stats.observe(each)
    by_position = [count.accepted / count.judged for count in stats.per_position if count.judged]
    return {
        "draft_length": length,
        "tokens": stats.num_emitted,
        "acceptance_rate": stats.acceptance_rate,
        "acceptance_by_position": by_position,
        "tokens_per_round": stats.tokens_per_round,
    }


def describe(found: dict[str, Any]) -> str:
    positions = "  ".join(f"{rate:.2f}" for rate in found["acceptance_by_position"])
    return (
        f"draft length {found['draft_length']}: {found['tokens_per_round']:.2f} tokens per round, "
        f"acceptance {found['acceptance_rate']:.2f}, by position {positions}   ({found['tokens']} tokens)"
    )


def main() -> None:
    parser = common.parser(__doc__)
    common.add_pair_options(parser, tokens=96)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 2, 3, 5])
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    options = parser.parse_args()
    pair = common.load(options.target, options.assistant, options.dtype)
    prompts = common.choose_prompts(options.questions, options.prompts)
    found = [measure(pair, prompts, options.tokens, length) for length in options.lengths]
    figures = {"prompts": len(prompts), "dtype": options.dtype, "lengths": found} | common.machine()
    common.show(figures, [describe(each) for each in found], options.json)


if __name__ == "__main__":
    main()
