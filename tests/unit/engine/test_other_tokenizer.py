"""An assistant with another tokenizer: the text is the target's own, the drafts are worth something, and the
assistant is never altered (P3, P6).

Greedy: tiny models and recited texts with umlauts, emoji, code and newlines. Sampled: scripted models over two
toy vocabularies that have three tokens in common, chi-square on three tokens' joint; faulty distributions must
fail it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from threading import Event
from typing import Any

import pytest
import torch
from scipy.stats import chisquare
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from app.engine.batch import draft_together
from app.engine.cached_model import CachedModel, ModelPair, common_prefix
from app.engine.decoding import rounds
from app.engine.drafters import other_tokenizer
from app.engine.drafters.other_tokenizer import OtherTokens, common_vocabulary, meanings, tokens_behind
from app.engine.opening import make_drafter
from app.engine.sampling import Sampler
from app.engine.text import INCOMPLETE, ChatText
from app.records import Message, PairSummary, SamplingSettings
from tests.helpers import tiny
from tests.helpers.exact import joint
from tests.helpers.replies import count, emitted, plain, reply, request
from tests.helpers.scripted import Script, ScriptedModel, last_two_tokens, recited

PROMPTS = {
    "umlauts": "Größe über alles: schöne Grüße aus Köln",
    "emoji": "A family 👨‍👩‍👧 and a 👍",
    "code": "def area(width):\n\treturn width  # <|end|> </s>\n\n",
    "newlines": "\n\nOne\r\n\nTwo \n",
}
TEXT = (
    "The lighthouse keeper counts the ships.\n\nZwölf Boxkämpfer jagen Viktor 😀👍 quer über den großen Deich.\n"
    "def area(width, height):\n    return width * height\n\nThe quick quiz is about the other half.  Ok?"
)
OWN: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "byte-level": tiny.other_tokenizer,
    "byte-level without a template": lambda: tiny.other_tokenizer(None),
    "byte fallback": tiny.byte_fallback_tokenizer,
}
SAMPLED = {"temperature": 1.0, "seed": 3}


@cache
def tiny_models(own: str) -> tuple[Any, Any]:
    """A target and an assistant of another family with another vocabulary, both untrained."""
    return tiny.model("llama"), tiny.model("gpt2", seed=5, vocab_size=len(OWN[own]()))


def tiny_pair(own: str) -> ModelPair:
    target, assistant = tiny_models(own)
    return tiny.pair_of_two_tokenizers(CachedModel(target), CachedModel(assistant), OWN[own]())


def reciting(own: ChatText, text: str) -> Script:
    """Certain of `text`, in tokens of `own`: goes on behind the longest end of what was read that begins it."""

    def script(tokens: Sequence[int]) -> torch.Tensor:
        ends = range(len(tokens), 0, -1)
        whole = next((end for end in ends if not own.decode(tokens[:end]).endswith(INCOMPLETE)), 0)
        said = own.decode(tokens[:whole])
        known = next(size for size in range(len(text), -1, -1) if said.endswith(text[:size]))
        following = [token for token, _ in tokens_behind(own, text[:known], text[known:])]
        begun = len(tokens) - whole  # tokens of a character that is not complete yet
        logits = torch.zeros(len(own.tokenizer), dtype=torch.float64)
        logits[following[begun] if begun < len(following) else own.tokenizer.eos_token_id] = 25.0
        return logits

    return script


def reciting_pair(own: str, text: str, prompt: str = "Say it.") -> ModelPair:
    """Both models are certain of the same text."""
    tokenizer, theirs = tiny.tokenizer(), ChatText(OWN[own]())
    words = [*ChatText(tokenizer).encode([Message("user", prompt)]), *tokenizer(text)["input_ids"], 1]
    target = ScriptedModel(recited(words, len(tokenizer)), len(tokenizer))
    assistant = ScriptedModel(reciting(theirs, text), len(theirs.tokenizer))
    return tiny.pair_of_two_tokenizers(target, assistant, OWN[own]())


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_greedy_assisted_text_equals_plain_text(prompt: str, own: str) -> None:
    pair = tiny_pair(own)
    alone = plain(pair, prompt, 24)
    for drafter in ("assistant", "hybrid"):
        finished = reply(pair, prompt, 24, drafter=drafter)
        assert any(each.candidates for each in finished)
        assert emitted(finished) == alone


def test_sample_and_match_repeats_plain_sampling() -> None:
    for seed in range(3):
        settings = {"temperature": 1.0, "seed": seed, "rule": "sample-match"}
        pair = tiny_pair("byte-level")
        assert emitted(reply(pair, PROMPTS["code"], 30, **settings)) == plain(
            pair, PROMPTS["code"], 30, temperature=1.0, seed=seed
        )


@pytest.mark.parametrize("own", OWN)
def test_an_assistant_certain_of_the_same_text_is_accepted(own: str) -> None:
    pair = reciting_pair(own, TEXT)
    finished = reply(pair, "Say it.", 300)
    assert pair.text.decode(emitted(finished)) == TEXT
    assert finished[-1].finish_reason == "eos"
    # Refused are ends of drafts inside a word, where the target would have taken a longer token.
    assert count(finished, "num_accepted") > 0.8 * count(finished, "num_judged")
    assert len(emitted(finished)) > 2.5 * len(finished)


@pytest.mark.parametrize("own", OWN)
def test_a_sampled_draft_of_the_same_text_is_accepted(own: str) -> None:
    pair = reciting_pair(own, "a b c d. (e)\n" * 8)
    finished = reply(pair, "Say it.", 300, temperature=0.1)
    assert pair.text.decode(emitted(finished)) == "a b c d. (e)\n" * 8
    assert count(finished, "num_accepted") > 0


@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_the_same_pair_runs_greedy_sampled_greedy_with_equal_results(settings: dict[str, Any]) -> None:
    pair = tiny_pair("byte-level")
    assert pair.assistant is not None and pair.assistant_text is not None
    tokenizer: Any = pair.assistant_text.tokenizer
    before = (
        {name: weight.clone() for name, weight in pair.assistant.model.state_dict().items()},
        pair.assistant.model.config.to_dict(),
        pair.assistant.model.generation_config.to_dict(),
        tokenizer.backend_tokenizer.to_str(),
        tokenizer("</s> is not text")["input_ids"],
    )
    first = emitted(reply(pair, PROMPTS["code"], 30, **settings))
    reply(pair, PROMPTS["code"], 30, temperature=0.7, seed=1)
    reply(pair, PROMPTS["emoji"], 30)
    assert emitted(reply(pair, PROMPTS["code"], 30, **settings)) == first
    after = (
        pair.assistant.model.state_dict(),
        pair.assistant.model.config.to_dict(),
        pair.assistant.model.generation_config.to_dict(),
        tokenizer.backend_tokenizer.to_str(),
        tokenizer("</s> is not text")["input_ids"],
    )
    assert before[1:] == after[1:]
    assert before[0].keys() == after[0].keys()
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])


def test_the_assistant_reads_the_conversation_in_its_own_template() -> None:
    pair = reciting_pair("byte-level", TEXT)
    assert isinstance(pair.assistant, ScriptedModel) and pair.assistant_text is not None
    prompt = pair.assistant_text.encode([Message("user", "Say it.")])
    reply(pair, "Say it.", 10)
    assert pair.assistant.tokens[: len(prompt)] == prompt


def test_a_second_turn_is_read_from_where_the_first_one_ended() -> None:
    pair = reciting_pair("byte-level", TEXT)
    assert isinstance(pair.assistant, ScriptedModel) and isinstance(pair.target, ScriptedModel)
    reply(pair, "Say it.", 300)
    first = pair.assistant.tokens[:]
    pair.assistant.fed.clear()
    turns = (Message("user", "Say it."), Message("assistant", TEXT), Message("user", "Again."))
    next(rounds(pair, replace(request("", 20), messages=turns), Event()))
    assert common_prefix(first, pair.assistant.tokens) >= len(first) - 5, "but for the last draft"
    assert sum(map(len, pair.assistant.fed)) < 30


def test_several_replies_at_once_equal_each_by_itself() -> None:
    pair, settings = tiny_pair("byte-level"), {"temperature": 1.0, "rule": "sample-match"}
    together = rounds(pair, replace(request(PROMPTS["code"], 20, **settings), num_variants=2), Event())
    written: dict[int, list[int]] = {0: [], 1: []}
    for each in together:
        written[each.variant] += [token.id for token in each.emitted]
    for seed, tokens in written.items():
        assert tokens == plain(pair, PROMPTS["code"], 20, temperature=1.0, seed=seed)


def test_an_assistant_whose_template_refuses_reads_the_text_of_the_targets_prompt() -> None:
    own = tiny.other_tokenizer("{{ raise_exception('no such role') }}")
    model = ScriptedModel(lambda tokens: torch.ones(len(own), dtype=torch.float64), len(own))
    target = ScriptedModel(lambda tokens: torch.ones(len(tiny.tokenizer())), len(tiny.tokenizer()))
    pair = tiny.pair_of_two_tokenizers(target, model, own)
    reply(pair, "Grüße!", 3)
    assert own.decode(model.tokens).startswith("user\nGrüße!\nassistant")


def test_special_tokens_of_the_target_and_texts_like_them_never_become_the_assistants() -> None:
    own = ChatText(tiny.other_tokenizer())
    sequence = [0, *tiny.tokenizer()("</s><s> and <pad>")["input_ids"], 1]
    tokens = OtherTokens(ChatText(tiny.tokenizer()), own, [], 0)
    tokens.hear(sequence)
    assert own.tokenizer.decode(tokens.ids) == "</s><s> and <pad>"
    assert not any(own.is_special(token) for token in tokens.ids)
    assert tokens.held == []


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("step", [1, 2, 7])
def test_a_text_heard_piece_by_piece_is_encoded_like_a_whole(own: str, step: int) -> None:
    text = TEXT + " 漢字かな交じり文" * 3 + TEXT
    theirs, sequence = ChatText(OWN[own]()), tiny.tokenizer()(text)["input_ids"]
    tokens = OtherTokens(ChatText(tiny.tokenizer()), theirs, [], 0)
    for length in range(step, len(sequence) + step, step):
        tokens.hear(sequence[:length])
    assert tokens.ids == [token for token, _ in tokens_behind(theirs, "", text)]


def test_inside_a_character_the_draft_goes_on_as_the_target_began() -> None:
    target, own = tiny.tokenizer(), ChatText(tiny.other_tokenizer())
    ids = target("Hej 😀!")["input_ids"]
    smile = len(target("Hej ")["input_ids"])
    drafted = own.tokenizer("😀!")["input_ids"]
    for begun in (1, 2, 3):
        tokens = OtherTokens(ChatText(target), own, [], 0)
        tokens.hear(ids[: smile + begun])
        assert own.tokenizer.decode(tokens.ids) == "Hej "
        assert tokens.translate(drafted) == ids[smile + begun :]
        assert tokens.translate(own.tokenizer("ö!")["input_ids"]) == []
        assert tokens.translate(drafted[:2]) == [], "half a character is held back"


@pytest.mark.parametrize("own", OWN)
def test_candidates_are_tokenised_as_the_target_would_go_on(own: str) -> None:
    target, theirs = tiny.tokenizer(), ChatText(OWN[own]())
    text = "The lighthouse keeper counts the ships"
    ids = target(text)["input_ids"]
    for known in range(len(ids)):
        tokens = OtherTokens(ChatText(target), theirs, [], 0)
        tokens.hear(ids[:known])
        rest = text[len(target.decode(ids[:known])) :]
        drafted = [token for token, _ in tokens_behind(theirs, target.decode(ids[:known]), rest)]
        assert tokens.translate(drafted) == ids[known:]


def test_where_the_target_stopped_inside_a_word_the_rest_is_encoded_by_itself() -> None:
    target, own = tiny.tokenizer(), ChatText(tiny.other_tokenizer())
    tokens = OtherTokens(ChatText(target), own, [], 0)
    tokens.hear([*target("The")["input_ids"], *target(" l")["input_ids"]])
    rest = target("ighthouse keeper")["input_ids"]
    assert target("The lighthouse")["input_ids"][-1] not in rest
    assert tokens.translate(own.tokenizer("ighthouse keeper")["input_ids"]) == rest


def test_white_space_that_a_tokenizer_leaves_out_of_its_spans_is_not_encoded_twice() -> None:
    backend = Tokenizer.from_str(tiny.tokenizer().backend_tokenizer.to_str())
    backend.post_processor = processors.ByteLevel(trim_offsets=True)
    trimming = ChatText(PreTrainedTokenizerFast(tokenizer_object=backend))
    for known, new in (("The ", "\nships"), ("The", " ships \n"), ("", " \nThe")):
        tokens = [token for token, _ in tokens_behind(trimming, known, new)]
        assert tokens == [token for token, _ in tokens_behind(ChatText(tiny.tokenizer()), known, new)]
        assert trimming.decode(tokens) == new


def test_an_assistants_token_that_is_several_of_the_targets_is_cut_to_the_length_in_force() -> None:
    text = tiny.OTHER_SENTENCES[0] * 3
    finished = reply(reciting_pair("byte-level", text), "Say it.", 300, draft_length=1)
    assert max(len(each.candidates) for each in finished) == 1
    assert max(len(each.candidates) for each in reply(reciting_pair("byte-level", text), "Say it.", 300)) > 1


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0}], ids=["greedy", "sampled"])
def test_work_per_round_does_not_grow_with_the_context(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """Characters encoded, tokens decoded and tokens compared in each draft, counted while 6,000 tokens are read."""
    target, own = tiny.tokenizer(), tiny.other_tokenizer()
    work: list[int] = []
    pair = reciting_pair("byte-level", TEXT)
    assert pair.assistant is not None
    counted_encode, counted_decode = tokens_behind, ChatText.decode

    def encode(text: ChatText, known: str, new: str) -> Any:
        work[-1] += len(known + new)
        return counted_encode(text, known, new)

    def decode(text: ChatText, ids: Sequence[int]) -> str:
        work[-1] += len(ids)
        return counted_decode(text, ids)

    def compare(one: Sequence[int], other: Sequence[int]) -> int:
        work[-1] += max(len(one), len(other))
        return common_prefix(one, other)

    monkeypatch.setattr(other_tokenizer, "tokens_behind", encode)
    monkeypatch.setattr(other_tokenizer, "common_prefix", compare)
    monkeypatch.setattr(ChatText, "decode", decode)
    assistant = ScriptedModel(lambda tokens: torch.ones(len(own), dtype=torch.float64), len(own))
    pair = tiny.pair_of_two_tokenizers(ScriptedModel(lambda _: torch.zeros(1), len(target)), assistant, own)
    asked = request("Say it.", **settings)
    prompt = pair.text.encode(asked.messages)
    drafter = make_drafter(pair, asked, Sampler(asked.sampling, len(prompt)))
    sequence = prompt + target(TEXT * 60)["input_ids"]
    for length in range(len(prompt), len(sequence), 4):
        work.append(0)
        draft_together([(assistant, drafter.draft(sequence[:length], lambda source: 5))], Event())
        drafter.crop(length)
    assert len(work) > 1000
    assert max(len(fed) for fed in assistant.fed[1:]) < 64, "the assistant reads the end of the text only"
    assert max(work[500:]) <= max(work[20:200]) + 20


def test_a_draft_ends_behind_the_first_token_below_the_threshold() -> None:
    """The assistant is sure of its first two tokens and of nothing behind them."""
    pair = reciting_pair("byte-level", TEXT)
    assert isinstance(pair.assistant, ScriptedModel) and pair.assistant_text is not None
    sure, own = pair.assistant._script, pair.assistant_text
    start = len(own.encode([Message("user", "Say it.")]))
    pair.assistant._script = lambda tokens: sure(tokens) / (1 if len(tokens) < start + 2 else 10)
    threshold = {"schedule": "confidence", "confidence_threshold": 0.4, "draft_length": 8}
    first = reply(pair, "Say it.", 10, **threshold)[0]
    assert "".join(token.text for token in first.candidates) == own.decode(
        own.tokenizer(TEXT)["input_ids"][:3]
    )
    assert len(reply(pair, "Say it.", 10, draft_length=8)[0].candidates) > len(first.candidates)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.1}], ids=["greedy", "sampled"])
def test_drafts_are_bounded_by_the_length_in_force_and_by_the_assistants_context(
    settings: dict[str, Any],
) -> None:
    pair = reciting_pair("byte-level", TEXT)
    assert isinstance(pair.assistant, ScriptedModel)
    pair.assistant._context_length = 60  # feeding it more is an error
    finished = reply(pair, "Say it.", 300, draft_length=3, **settings)
    assert pair.text.decode(emitted(finished)) == TEXT
    assert 0 < max(len(each.candidates) for each in finished) <= 3
    assert not finished[-2].candidates, "beyond its context the assistant drafts nothing"
    assert not any(each.candidates for each in reply(pair, "Say it. " * 30, 10, **settings))


def test_early_exit_of_a_target_whose_assistant_has_another_tokenizer() -> None:
    pair = tiny_pair("byte-level")
    finished = reply(pair, PROMPTS["code"], 20, drafter="early-exit")
    assert any(each.candidates for each in finished)
    assert emitted(finished) == plain(pair, PROMPTS["code"], 20)


def test_tokens_are_common_when_they_mean_the_same() -> None:
    """The space is "Ġ" in one vocabulary and "▁" in the other, the newline "Ċ" and a byte token."""
    ours, theirs = tiny.tokenizer(), tiny.byte_fallback_tokenizer()
    common = common_vocabulary(ChatText(ours), ChatText(theirs))
    names = dict(
        zip(
            *(t.convert_ids_to_tokens(list(ids)) for t, ids in ((ours, common), (theirs, common.values()))),
            strict=True,
        )
    )
    assert (names["Ġ"], names["Ċ"], names["A"], names["<|end|>"]) == ("▁", "<0x0A>", "A", "<|end|>")
    assert "<|start|>" not in names
    assert "Ã" not in names, "the first byte of ö by itself is no text"
    assert all(
        name in ("<|end|>", *map(chr, range(128)))
        for name in map(ChatText(ours).name, common)
        if name != "<|end|>"
    )


def test_a_token_that_starts_a_word_differs_from_one_inside() -> None:
    found = meanings(ChatText(tiny.tokenizer()))
    assert found[" lighthouse"] == tiny.tokenizer().convert_tokens_to_ids("Ġlighthouse")
    assert "lighthouse" not in found


# Sampled drafts on small vocabularies: "q", "z" and "?" are the assistant's alone, "d" and "e" the target's.

WORDS = ("a", "b", "c", "d", "e")
OTHER_WORDS = ("q", "c", "?", "a", "z", "b")
START = "a b c a b"
NUM_SEEDS = 1000
ALPHA = 1e-4
TARGET = last_two_tokens(seed=30, vocabulary=len(WORDS), spread=1.0)
ASSISTANT = last_two_tokens(seed=2, vocabulary=len(OTHER_WORDS), spread=1.0)


def words_text(words: Sequence[str]) -> ChatText:
    """A tokenizer of words between spaces; what it does not know is "?"."""
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return ChatText(PreTrainedTokenizerFast(tokenizer_object=made))


@cache
def texts() -> tuple[ChatText, ChatText]:
    return words_text(WORDS), words_text(OTHER_WORDS)


def toy_pair(assistant: Script = ASSISTANT) -> ModelPair:
    text, own = texts()
    described = PairSummary("target", "assistant", "cpu", "float64", 10_000)
    models_ = ScriptedModel(TARGET, len(WORDS)), ScriptedModel(assistant, len(OTHER_WORDS))
    return ModelPair(*models_, text, frozenset(), described, own)


def sample(length: int = 3, **settings: Any) -> tuple[Counter, int, int]:
    """The first `length` tokens for every seed, counted; and how many candidates were judged and accepted."""
    pair, found, judged, accepted = toy_pair(), Counter(), 0, 0
    for seed in range(NUM_SEEDS):
        tokens: list[int] = []
        for each in rounds(pair, request(START, 12, seed=seed, draft_length=2, **settings), Event()):
            tokens += [token.id for token in each.emitted]
            judged, accepted = judged + each.num_judged, accepted + each.num_accepted
            if len(tokens) >= length:
                break
        found[tuple(tokens[:length])] += 1
    return found, judged, accepted


def p_value(found: Counter, **sampling: Any) -> float:
    """Pearson's chi-square against the target's own joint; outcomes rarer than five in the sample are one bin."""
    sampler, start = Sampler(SamplingSettings(**sampling)), [WORDS.index(word) for word in START.split()]
    shares = joint(lambda tokens: sampler.probabilities(TARGET([*start, *tokens])[None])[0], 3)
    assert found.keys() <= shares.keys(), "a text that the target cannot write"
    frequent = [tokens for tokens, share in shares.items() if share * found.total() >= 5]
    observed = [found[tokens] for tokens in frequent]
    expected = [shares[tokens] * found.total() for tokens in frequent]
    rest = found.total() - sum(expected)
    if rest >= 5:
        observed, expected = [*observed, found.total() - sum(observed)], [*expected, rest]
    return float(
        chisquare(
            observed, torch.tensor(expected, dtype=torch.float64) * sum(observed) / sum(expected)
        ).pvalue
    )


@pytest.mark.parametrize(
    "sampling", [{"temperature": 1.0}, {"temperature": 0.7, "top_k": 3, "top_p": 0.9}], ids=["all", "filters"]
)
def test_three_sampled_tokens_have_the_targets_distribution(sampling: dict[str, Any]) -> None:
    found, judged, accepted = sample(**sampling)
    assert NUM_SEEDS / 10 < accepted < judged
    assert p_value(found, **sampling) > ALPHA


def test_candidates_are_drawn_over_the_common_vocabulary_alone() -> None:
    pair, asked = toy_pair(), request(START, temperature=1.0)
    drafter, prompt = make_drafter(pair, asked, Sampler(asked.sampling)), pair.text.encode(asked.messages)
    [draft] = draft_together([(pair.assistant, drafter.draft(prompt, lambda source: 4))], Event())
    assert draft.drawn and draft.distributions is not None
    assert set(draft.ids) <= {0, 1, 2}
    assert (draft.distributions[:, 3:] == 0).all() and (draft.distributions[:, :3] > 0).all()
    torch.testing.assert_close(draft.distributions.sum(-1), torch.ones(4, dtype=torch.float64))
    read = [OTHER_WORDS.index(word) for word in START.split()]
    row = ASSISTANT(read)[[3, 5, 1]].softmax(-1)
    torch.testing.assert_close(draft.distributions[0, :3], row)


def test_where_nothing_common_is_likely_the_draft_ends() -> None:
    foreign = torch.full((len(OTHER_WORDS),), -torch.inf, dtype=torch.float64)
    foreign[OTHER_WORDS.index("q")] = 0.0
    finished = reply(toy_pair(lambda tokens: foreign), START, 8, temperature=1.0)
    assert not any(each.candidates for each in finished)
    assert len(emitted(finished)) == 8


# What follows shows that the test can fail.


def test_notices_a_distribution_that_is_not_renormalised(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if q were the assistant's over all of its vocabulary, half of which is common."""
    original = other_tokenizer.Draft
    monkeypatch.setattr(
        other_tokenizer,
        "Draft",
        lambda ids=(), source=None, rows=None, drawn=False: original(
            ids, source, None if rows is None else rows / 2, drawn
        ),
    )
    assert p_value(sample(temperature=1.0)[0], temperature=1.0) < ALPHA


def test_notices_candidates_drawn_from_the_assistants_whole_vocabulary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of the draws are foreign tokens, which the target reads as its unknown one."""
    original = other_tokenizer.draw
    monkeypatch.setattr(
        other_tokenizer, "draw", lambda row, uniform: original(row, 2 * uniform) if uniform < 0.5 else 0
    )
    assert p_value(sample(temperature=1.0)[0], temperature=1.0) < ALPHA
