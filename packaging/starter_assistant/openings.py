"""The first words of the user turns; the target itself writes the rest.

Left alone after `<|im_start|>user` a small model asks about the same few subjects for ever, so each turn is
begun for it: a template, and in many of them a subject (see openings.toml).
"""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

LISTS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def opening(rng: random.Random, kind: str = "templates") -> str:
    """One of the list `kind` with its blanks filled in."""
    blanks = {
        "s": rng.choice(LISTS["subjects"]),
        "l": rng.choice(LISTS["languages"]),
        "p": rng.choice(LISTS["names"]),
        "n": rng.randint(2, 240),
    }
    return rng.choice(LISTS[kind]).format(**blanks)


def passage_request(rng: random.Random, passage: str) -> str:
    """A task about a text that the target wrote earlier."""
    task, question = opening(rng, "passage_tasks"), opening(rng, "passage_questions")
    return f"{task}\n\n{passage}" + (f"\n\n{question}" if question else "")
