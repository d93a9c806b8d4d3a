"""Shards of conversations on disk, and batches of them for training.

A shard holds its conversations end to end. For every position there are the token, who chose it, the target's
normed final hidden state and its `TOP` best next tokens with their logits; the last position of a
conversation was never fed and has no such row, so a zero row stands there to keep all arrays of one length.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch.nn.utils.rnn import pad_sequence

TOP = 32
SHARD_TOKENS = 60_000


class ShardWriter:
    """Collects conversations and saves a shard when enough of them are together."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.name = folder, name
        self.next_index = len(list(folder.glob(f"{name}-*.safetensors")))
        self.tokens_written, self.pending, self.saved = 0, 0, False
        self.parts: dict[str, list[torch.Tensor]] = {}

    def add(
        self,
        tokens: list[int],
        roles: list[int],
        temperature: float,
        hidden: torch.Tensor,
        top_ids: torch.Tensor,
        top_logits: torch.Tensor,
    ) -> None:
        """One conversation of n tokens; hidden [n - 1, 576], top_ids and top_logits [n - 1, TOP]."""
        columns = {
            "tokens": torch.tensor(tokens, dtype=torch.int32),
            "roles": torch.tensor(roles, dtype=torch.uint8),
            "length": torch.tensor([len(tokens)], dtype=torch.int32),
            "temperature": torch.tensor([temperature]),
            "hidden": _with_zero_row(hidden),
            "top_ids": _with_zero_row(top_ids),
            "top_logits": _with_zero_row(top_logits),
        }
        for key, value in columns.items():
            self.parts.setdefault(key, []).append(value)
        self.pending += len(tokens)
        if self.pending >= SHARD_TOKENS:
            self._save()

    def just_saved(self) -> bool:
        """Whether a shard was saved since the last call."""
        saved, self.saved = self.saved, False
        return saved

    def _save(self) -> None:
        path = self.folder / f"{self.name}-{self.next_index:05d}.safetensors"
        partial = path.with_suffix(".partial")
        save_file({key: torch.cat(values) for key, values in self.parts.items()}, partial)
        partial.rename(path)
        self.tokens_written += self.pending
        self.next_index += 1
        self.pending, self.saved, self.parts = 0, True, {}


class Corpus:
    """Conversations of many shards, kept in memory without the columns that training does not read."""

    def __init__(
        self, folder: Path, columns: tuple[str, ...] = ("tokens", "roles", "top_ids", "top_logits")
    ) -> None:
        self.folder, self.columns = folder, columns
        self.seen: set[Path] = set()
        self.conversations: list[dict[str, torch.Tensor]] = []
        self.refresh()

    def refresh(self) -> None:
        """Load the shards that have appeared since the last call."""
        for path in sorted(set(self.folder.glob("*.safetensors")) - self.seen):
            self.seen.add(path)
            shard = load_file(path)
            ends = shard["length"].cumsum(0).tolist()
            for start, end in zip([0, *ends[:-1]], ends, strict=True):
                self.conversations.append({key: shard[key][start:end].clone() for key in self.columns})

    def token_count(self) -> int:
        """Tokens of all conversations together."""
        return sum(len(c["tokens"]) for c in self.conversations)

    def epoch(self, batch_tokens: int, seed: int) -> Iterator[dict[str, torch.Tensor]]:
        """All conversations once, in batches of at most `batch_tokens` places and of similar lengths.

        Yields columns padded with zeros to [rows, longest, ...]; under causal attention that is harmless.
        """
        rng = random.Random(seed)
        jitter = {i: len(c["tokens"]) * rng.uniform(0.9, 1.1) for i, c in enumerate(self.conversations)}
        groups: list[list[int]] = [[]]
        longest = 0
        for index in sorted(jitter, key=jitter.__getitem__):
            longest = max(longest, len(self.conversations[index]["tokens"]))
            if longest * (len(groups[-1]) + 1) > batch_tokens:
                groups.append([])
                longest = len(self.conversations[index]["tokens"])
            groups[-1].append(index)
        rng.shuffle(groups)
        for group in groups:
            members = [self.conversations[i] for i in group]
            yield {key: pad_sequence([m[key] for m in members], batch_first=True) for key in self.columns}


def _with_zero_row(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows, torch.zeros(1, rows.shape[1], dtype=rows.dtype)])
