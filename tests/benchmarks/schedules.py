"""The automatic draft length against constant ones and plain generation, with a good and a useless assistant.

Greedy; decoding only, the assistant's reading of the prompt is left out. On each prompt the contestants take
turns, the automatic one keeping what it learnt from prompt to prompt, as in a chat. The useless assistant is
the real one with its logits upside down: it costs as much and is always wrong.

    python -m tests.benchmarks.schedules [--questions PATH] [--prompts N] [--tokens N] [--json]
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from typing import Any

from app.engine.cached_model import CachedModel, ModelPair
from app.engine.stats import Statistics
from app.records import Round
from tests.benchmarks import common

LENGTHS = (1, 2, 3, 5, 8)


def always_wrong(assistant: CachedModel) -> CachedModel:
    made = copy.copy(assistant)
    made.tokens = []
    made.forward = lambda ids, keep=0: -type(made).forward(made, ids, keep)  # type: ignore[method-assign]
    return made


def contestants() -> dict[str, dict[str, Any]]:
    constant = {f"constant {length}": {"draft_length": length} for length in LENGTHS}
    return {"plain": {"drafter": "none"}, "automatic": {"schedule": "automatic"}} | constant


def measure(pair: ModelPair, prompts: list[str], tokens: int, drafter: str) -> dict[str, list[Round]]:
    found: dict[str, list[Round]] = {name: [] for name in contestants()}
    common.reply(pair, prompts[0], 8)  # warm-up
    for prompt in prompts:
        for name, settings in contestants().items():
            found[name] += common.reply(pair, prompt, tokens, **{"drafter": drafter, **settings})
    return found


def summarise(found: dict[str, list[Round]]) -> dict[str, Any]:
    plain = Statistics.of(found["plain"]).tokens_per_second
    assert plain
    figures: dict[str, Any] = {}
    for name, rounds in found.items():
        stats = Statistics.of(rounds)
        assert stats.tokens_per_second
        figures[name] = {
            "tokens": stats.num_emitted,
            "tokens_per_second": stats.tokens_per_second,
            "against_plain": stats.tokens_per_second / plain,
            "tokens_per_round": stats.tokens_per_round,
            "lengths": dict(sorted(Counter(len(each.candidates) for each in rounds).items())),
        }
    return figures


def main() -> None:
    parser = common.parser(__doc__)
    common.add_pair_options(parser, tokens=128)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--drafter", choices=["assistant", "hybrid"], default="assistant")
    options = parser.parse_args()
    pair = common.load(options.target, options.assistant, options.dtype)
    assert pair.assistant is not None
    wrong = replace(pair, assistant=always_wrong(pair.assistant), schedules={})
    prompts = common.choose_prompts(options.questions, options.prompts or 8)
    figures = {
        name: summarise(measure(each, prompts, options.tokens, options.drafter))
        for name, each in (("the pair", pair), ("always wrong", wrong))
    }
    settings = {"prompts": len(prompts), "dtype": options.dtype, "drafter": options.drafter}
    common.show(settings | figures | common.machine(), describe(figures), options.json)


def describe(figures: dict[str, dict[str, Any]]) -> list[str]:
    lines = []
    for pair, by_name in figures.items():
        lines.append(f"{pair}:")
        for name, each in by_name.items():
            lengths = ", ".join(f"{length}: {count}" for length, count in each["lengths"].items())
            lines.append(
                f"  {name:12} {each['tokens_per_second']:6.1f} tokens/s  {each['against_plain']:5.3f} x plain  "
                f"{each['tokens_per_round']:.2f} per round   drafts {{{lengths}}}"
            )
    return lines


if __name__ == "__main__":
    main()
