"""The starter's own tokenizer: pieces join to the decoded text, and its template opens the reply (D10)."""

from __future__ import annotations

import random

import pytest

from app.engine.cached_model import ModelPair
from app.engine.text import INCOMPLETE, Detokeniser
from app.records import Message

pytestmark = pytest.mark.starter

TEXTS = (
    "The lighthouse keeper counts the ships.\n\n  - one\n  - two\n",
    "👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag, 👍🏽 tone, 😀😃🎉",
    "日本語のテキスト。中文字符，한국어 — नमस्ते, e\u0301a\u0308\u0323",
    "∀x∈ℝ ⌈x⌉ 𝔘nicode «да» שלום 🐍",
)


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_join_to_the_text(starter_pair: ModelPair, text: str) -> None:
    detokeniser = Detokeniser(starter_pair.text)
    pieces = [detokeniser.push(each) for each in starter_pair.text.tokenizer(text)["input_ids"]]
    assert "".join(pieces) == text
    assert INCOMPLETE not in "".join(pieces)


@pytest.mark.parametrize("seed", range(5))
def test_random_tokens(starter_pair: ModelPair, seed: int) -> None:
    generator, detokeniser = random.Random(seed), Detokeniser(starter_pair.text)
    tokenizer = starter_pair.text.tokenizer
    ids = [generator.randrange(len(tokenizer)) for _ in range(200)]
    shown = "".join(detokeniser.push(each) for each in ids)
    whole = tokenizer.decode(ids, skip_special_tokens=True)
    assert whole.startswith(shown)
    assert set(whole[len(shown) :]) <= {INCOMPLETE}


def test_the_template_opens_the_reply(starter_pair: ModelPair) -> None:
    ids = starter_pair.text.encode([Message("system", "Be brief."), Message("user", "Ships?")])
    assert starter_pair.text.tokenizer.decode(ids) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nShips?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_pair_knows_where_a_reply_ends(starter_pair: ModelPair) -> None:
    assert [starter_pair.text.name(each) for each in starter_pair.eos_ids] == ["<|im_end|>"]
