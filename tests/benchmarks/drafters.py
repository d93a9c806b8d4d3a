"""Each drafter on the same prompts: acceptance, tokens per round and tokens per second, by category.

Greedy, one draft length for all; decoding only. On each prompt the drafters take turns with plain generation,
and the speed-up is the ratio of the summed seconds.

    python -m tests.benchmarks.drafters [--questions PATH] [--prompts 48] [--draft-length N] [--json]
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from app.engine.cached_model import ModelPair
from app.engine.stats import Statistics
from app.records import Round
from tests.benchmarks import common

DRAFTERS = ("none", "assistant", "lookup", "hybrid", "early-exit")


def measure(
    pair: ModelPair, prompts: list[str], tokens: int, draft_length: int
) -> dict[str, dict[str, list[Round]]]:
    """The rounds by drafter and prompt."""
    found: dict[str, dict[str, list[Round]]] = defaultdict(dict)
    for prompt in prompts:
        for drafter in DRAFTERS:
            found[drafter][prompt] = common.reply(
                pair, prompt, tokens, drafter=drafter, draft_length=draft_length
            )
    return found


def summarise(rounds: list[Round], plain: list[Round]) -> dict[str, Any]:
    stats, alone = Statistics.of(rounds), Statistics.of(plain)
    assert stats.tokens_per_second and alone.tokens_per_second
    return {
        "tokens": stats.num_emitted,
        "acceptance_rate": stats.acceptance_rate,
        "tokens_per_round": stats.tokens_per_round,
        "tokens_per_second": stats.tokens_per_second,
        "speed_up": stats.tokens_per_second / alone.tokens_per_second,
        "by_source": {source: count.accepted / count.judged for source, count in stats.by_source.items()},
    }


def main() -> None:
    parser = common.parser(__doc__)
    common.add_pair_options(parser, tokens=64)
    parser.add_argument("--draft-length", type=int, default=3)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    options = parser.parse_args()
    pair = common.load(options.target, options.assistant, options.dtype)
    prompts = common.choose_prompts(options.questions, options.prompts)
    categories = common.category_of(options.questions) if options.questions else {}
    found = measure(pair, prompts, options.tokens, options.draft_length)
    groups: dict[str, list[str]] = {"all": prompts}
    for prompt in prompts:
        if prompt in categories:
            groups.setdefault(categories[prompt], []).append(prompt)
    figures = {
        name: {
            drafter: summarise(
                [each for prompt in members for each in found[drafter][prompt]],
                [each for prompt in members for each in found["none"][prompt]],
            )
            for drafter in DRAFTERS
        }
        for name, members in groups.items()
    }
    settings = {"prompts": len(prompts), "draft_length": options.draft_length, "dtype": options.dtype}
    common.show(settings | {"groups": figures} | common.machine(), describe(figures), options.json)


def describe(figures: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    lines = [f"{'':18}" + "".join(f"{drafter:>22}" for drafter in DRAFTERS), ""]
    for name, by_drafter in figures.items():
        cells = []
        for each in by_drafter.values():
            rate = "   –" if each["acceptance_rate"] is None else f"{each['acceptance_rate']:4.2f}"
            cells.append(f"{rate}  {each['tokens_per_round']:4.2f}/round {each['speed_up']:4.2f} x")
        lines.append(f"{name:18}" + "".join(f"{cell:>22}" for cell in cells))
    by_source = figures["all"]["hybrid"]["by_source"]
    return [
        *lines,
        "",
        "hybrid by source: " + ", ".join(f"{key} {rate:.2f}" for key, rate in by_source.items()),
    ]


if __name__ == "__main__":
    main()
