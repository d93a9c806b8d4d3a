"""Time to the first token of a chat's second turn, against the same tokens from cold.

The first turn holds a long text (3,000 tokens by default); the second adds a short question. Warm, both
caches keep what they have read; cold, they read all of it again.

    python -m tests.benchmarks.second_turn [--context N] [--repeats N] [--json]
"""

from __future__ import annotations

import statistics
from threading import Event
from time import perf_counter

from app.engine.cached_model import ModelPair
from app.engine.decoding import rounds
from app.records import DraftSettings, GenerationRequest, Message
from tests.benchmarks import common
from tests.helpers.prompts import PROMPTS

QUESTION = "Which of these was the shortest?"


def long_text(pair: ModelPair, tokens: int) -> str:
    """Our own prompts in a row, over and over, up to so many tokens."""
    text = ""
    while len(pair.text.encode([Message("user", text)])) < tokens:
        text += "\n".join(PROMPTS.values()) + "\n"
    return text


def first_token(pair: ModelPair, messages: tuple[Message, ...]) -> tuple[float, Message]:
    """Seconds to the end of the first round, and a short reply to go on from."""
    began = perf_counter()
    stream = rounds(
        pair, GenerationRequest(messages, draft=DraftSettings(draft_length=3), max_new_tokens=16), Event()
    )
    text = next(stream).text
    seconds = perf_counter() - began
    return seconds, Message("assistant", text + "".join(each.text for each in stream))


def main() -> None:
    parser = common.parser(__doc__)
    common.add_pair_options(parser, tokens=16)
    parser.add_argument("--context", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    options = parser.parse_args()
    pair = common.load(options.target, options.assistant, options.dtype)
    opening = Message("user", long_text(pair, options.context))
    warm, cold = [], []
    for _ in range(options.repeats):
        common.forget(pair)
        _, answer = first_token(pair, (opening,))
        turns = (opening, answer, Message("user", QUESTION))
        warm.append(first_token(pair, turns)[0])
        common.forget(pair)
        cold.append(first_token(pair, turns)[0])
    seconds = {"warm": statistics.median(warm), "cold": statistics.median(cold)}
    tokens = len(pair.text.encode(turns))
    lines = [
        f"second turn of {tokens} tokens: first token after {seconds['warm']:.2f} s, "
        f"from cold {seconds['cold']:.2f} s ({seconds['cold'] / seconds['warm']:.0f} x)"
    ]
    common.show({"tokens": tokens, "seconds": seconds} | common.machine(), lines, options.json)


if __name__ == "__main__":
    main()
