"""Chat messages in, text out: pieces join to the decoded reply and never show half a character (D10)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from app.engine.text import INCOMPLETE, ChatText, Detokeniser
from app.errors import UserFacingError
from app.records import Message
from tests.helpers import tiny

TEXTS = {
    "plain": "The lighthouse keeper counts the ships.",
    "spaces": "  two leading,\n\n  a gap\tand a tail  ",
    "emoji": "😀😃🎉 wow 🚀🚀",
    "joined emoji": "👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag, 👍🏽 tone",
    "CJK": "日本語のテキスト。中文字符，한국어",
    "combining": "e\u0301 n\u0303 a\u0308\u0323 — नमस्ते",
    "mixed": "naïve Zwölf → 𝔘nicode: ∀x∈ℝ ⌈x⌉ «да» שלום 🐍",
}
TOKENIZERS = {"byte-level": tiny.tokenizer, "byte fallback": tiny.byte_fallback_tokenizer}


@pytest.fixture(params=TOKENIZERS)
def text(request: pytest.FixtureRequest) -> ChatText:
    return ChatText(TOKENIZERS[request.param]())


def pieces(text: ChatText, ids: Sequence[int]) -> list[str]:
    detokeniser = Detokeniser(text)
    return [detokeniser.push(each) for each in ids]


def decoded(text: ChatText, ids: Sequence[int]) -> str:
    """By the tokenizer itself."""
    return text.tokenizer.decode(list(ids), skip_special_tokens=True)


@pytest.mark.parametrize("name", TEXTS)
def test_pieces_join_to_the_decoded_text(text: ChatText, name: str) -> None:
    ids = text.tokenizer(TEXTS[name], add_special_tokens=False)["input_ids"]
    shown = pieces(text, ids)
    assert "".join(shown) == decoded(text, ids)
    assert INCOMPLETE not in "".join(shown)
    assert decoded(text, ids).strip() == TEXTS[name].strip(), "the tokenizer can write this text"


@pytest.mark.parametrize("name", ["emoji", "CJK", "mixed"])
def test_incomplete_bytes_at_the_end_are_held_back(text: ChatText, name: str) -> None:
    """However the reply is cut, what is shown is the beginning of the text, whole characters only."""
    ids = text.tokenizer(TEXTS[name], add_special_tokens=False)["input_ids"]
    for end in range(len(ids)):
        shown = "".join(pieces(text, ids[:end]))
        assert decoded(text, ids).startswith(shown)
        assert INCOMPLETE not in shown


def test_the_piece_comes_with_the_token_that_completes_it() -> None:
    text = ChatText(tiny.tokenizer())
    ids = text.tokenizer("a😀b")["input_ids"]
    assert pieces(text, ids) == ["a", "", "", "", "😀", "b"]


@pytest.mark.parametrize("seed", range(20))
def test_random_tokens(seed: int) -> None:
    """Whatever a model may write, special tokens and broken bytes among it; at the end some may be held back."""
    text, generator = ChatText(tiny.tokenizer()), random.Random(seed)
    ids = [generator.randrange(len(text.tokenizer)) for _ in range(120)]
    whole, shown = decoded(text, ids), "".join(pieces(text, ids))
    assert whole.startswith(shown)
    assert set(whole[len(shown) :]) <= {INCOMPLETE}


def test_broken_bytes_on_end_are_shown_after_a_while(text: ChatText) -> None:
    broken = text.tokenizer("😀", add_special_tokens=False)["input_ids"][-1]
    shown = "".join(pieces(text, [broken] * 60))
    assert 20 <= len(shown) <= 60
    assert set(shown) == {INCOMPLETE}


def test_special_tokens_have_a_name_but_no_piece(text: ChatText) -> None:
    special = text.tokenizer.eos_token_id
    word = text.tokenizer("ship", add_special_tokens=False)["input_ids"]
    shown = pieces(text, [special, *word, special, *word])
    assert (shown[0], shown[1 + len(word)]) == ("", "")
    assert "".join(shown) == decoded(text, [special, *word, special, *word])
    assert text.name(special) == "<|end|>"
    assert text.is_special(special)
    assert not text.is_special(word[0])


def test_a_fork_does_not_disturb_the_original() -> None:
    text = ChatText(tiny.tokenizer())
    first, *rest = text.tokenizer("😀 sail")["input_ids"]
    detokeniser = Detokeniser(text)
    detokeniser.push(first)
    fork = detokeniser.fork()
    fork.push(text.tokenizer("x")["input_ids"][0])
    assert "".join(detokeniser.push(each) for each in rest) == "😀 sail"


def test_the_template_opens_the_reply() -> None:
    text = ChatText(tiny.tokenizer())
    ids = text.encode([Message("system", "Be brief."), Message("user", "Ships?")])
    written = text.tokenizer.decode(ids)
    assert written == "<|start|>system\nBe brief.<|end|>\n<|start|>user\nShips?<|end|>\n<|start|>assistant\n"


def test_a_model_without_a_template_completes_the_text() -> None:
    text = ChatText(tiny.tokenizer(template=None))
    ids = text.encode([Message("user", "The ships count"), Message("assistant", "the lighthouse")])
    assert text.tokenizer.decode(ids) == "The ships count\nthe lighthouse"


@pytest.mark.parametrize(
    "template",
    ["{{ raise_exception('Roles must alternate') }}", "{% for x in", "{{ messages[7]['content'] + 1 }}"],
)
def test_a_failing_template_is_explained(template: str) -> None:
    text = ChatText(tiny.tokenizer(template=template))
    with pytest.raises(UserFacingError, match="chat template") as caught:
        text.encode([Message("user", "Ships?")])
    assert caught.value.detail
    assert caught.value.remedy
