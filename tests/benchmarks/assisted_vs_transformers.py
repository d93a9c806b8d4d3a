"""Our assisted loop against transformers' `generate(assistant_model=...)`, and plain against plain.

Same two models in memory, same prompts, greedy, same draft length; on their side a constant schedule and no
confidence threshold, so that both draft the same candidates. First every prompt is answered by both without
a clock: texts are compared token for token, and rounds counted (on their side: forward passes of the
target). Then each prompt is timed from the token ids of the prompt to the end of the reply, prefill
included on both sides, all four contestants taking turns; medians per prompt are summed.

    python -m tests.benchmarks.assisted_vs_transformers [--dtype float32|bfloat16] [--draft-length N] [--json]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from app.engine.cached_model import ModelPair
from app.records import Message
from tests.benchmarks import common


@dataclass
class Comparison:
    """One prompt: what both wrote in how many rounds, and the median seconds of the four contestants."""

    tokens: int
    same_text: bool
    our_rounds: int
    their_rounds: int
    seconds: dict[str, float]


class Theirs:
    """transformers' own generation with the pair's two models."""

    def __init__(self, pair: ModelPair, tokens: int) -> None:
        assert pair.assistant is not None
        self._target, self._assistant = pair.target.model, pair.assistant.model
        self._text = pair.text
        self._tokens = tokens
        self._eos = sorted(pair.eos_ids)

    def answer(self, prompt: str, assisted: bool) -> list[int]:
        ids = self._text.encode([Message("user", prompt)])
        given = torch.tensor([ids], device=self._target.device)
        helper: dict[str, Any] = {"assistant_model": self._assistant} if assisted else {}
        output: Any = self._target.generate(
            given,
            attention_mask=torch.ones_like(given),
            do_sample=False,
            max_new_tokens=self._tokens,
            eos_token_id=self._eos,
            pad_token_id=self._eos[0],
            **helper,
        )
        return list(output[0, len(ids) :].tolist())

    def answer_counting(self, prompt: str) -> tuple[list[int], int]:
        """The assisted answer and the target's forward passes: one a round, the prompt being part of the first."""
        passes: list[None] = []
        hook = self._target.register_forward_hook(lambda *_: passes.append(None))
        try:
            return self.answer(prompt, assisted=True), len(passes)
        finally:
            hook.remove()


@contextmanager
def constant_draft_length(model: Any, length: int) -> Iterator[None]:
    """transformers reads these from the assistant; they are put back afterwards."""
    before = model.generation_config
    model.generation_config = copy.deepcopy(before)
    model.generation_config.num_assistant_tokens = length
    model.generation_config.num_assistant_tokens_schedule = "constant"
    model.generation_config.assistant_confidence_threshold = 0
    try:
        yield
    finally:
        model.generation_config = before


def compare(pair: ModelPair, prompt: str, tokens: int, length: int, repeats: int) -> Comparison:
    theirs = Theirs(pair, tokens)
    ours = common.reply(pair, prompt, tokens, draft_length=length)
    written, their_rounds = theirs.answer_counting(prompt)
    contestants: dict[str, Callable[[], object]] = {
        "ours": partial(common.reply, pair, prompt, tokens, draft_length=length),
        "theirs": partial(theirs.answer, prompt, assisted=True),
        "our plain": partial(common.reply, pair, prompt, tokens, drafter="none"),
        "their plain": partial(theirs.answer, prompt, assisted=False),
    }
    seconds = common.interleaved(contestants, repeats, warm_ups=0)  # both assisted ones have just run
    ids = common.token_ids(ours)
    return Comparison(len(written), ids == written, len(ours), their_rounds, seconds)


def summarise(compared: Sequence[Comparison]) -> dict[str, Any]:
    """Tokens per second of each contestant over all prompts, and whether they did the same work."""
    total = {name: sum(each.seconds[name] for each in compared) for name in compared[0].seconds}
    tokens = sum(each.tokens for each in compared)
    return {
        "prompts": len(compared),
        "same_text": sum(each.same_text for each in compared),
        "same_rounds": sum(each.our_rounds == each.their_rounds for each in compared),
        "our_rounds": sum(each.our_rounds for each in compared),
        "their_rounds": sum(each.their_rounds for each in compared),
        "tokens": tokens,
        "tokens_per_second": {name: tokens / seconds for name, seconds in total.items()},
        "assisted_ratio": total["theirs"] / total["ours"],
        "plain_ratio": total["their plain"] / total["our plain"],
        "each": [asdict(each) for each in compared],
    }


def main() -> None:
    parser = common.parser(__doc__)
    common.add_pair_options(parser, tokens=64)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--draft-length", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    pair = common.load(options.target, options.assistant, options.dtype)
    assert pair.assistant is not None
    prompts = common.choose_prompts(options.questions, options.prompts)
    with constant_draft_length(pair.assistant.model, options.draft_length):
        compared = [
            compare(pair, prompt, options.tokens, options.draft_length, options.repeats) for prompt in prompts
        ]
    found = summarise(compared) | {"dtype": options.dtype, "draft_length": options.draft_length}
    common.show(found | common.machine(), describe(found), options.json)


def describe(found: dict[str, Any]) -> list[str]:
    speed = found["tokens_per_second"]
    return [
        f"{found['dtype']}, draft length {found['draft_length']}, {found['prompts']} prompts, "
        f"{found['tokens']} tokens",
        f"same text on {found['same_text']}, same number of rounds on {found['same_rounds']} "
        f"({found['our_rounds']} against {found['their_rounds']})",
        f"assisted  {speed['ours']:6.1f} against {speed['theirs']:6.1f} tokens/s: "
        f"{found['assisted_ratio']:.2f} x",
        f"plain     {speed['our plain']:6.1f} against {speed['their plain']:6.1f} tokens/s: "
        f"{found['plain_ratio']:.2f} x",
    ]


if __name__ == "__main__":
    main()
