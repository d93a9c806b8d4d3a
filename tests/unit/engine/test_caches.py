"""What the two caches hold after every round, after an error, and between turns; and that nothing else changes."""

from __future__ import annotations

import copy
from itertools import pairwise
from threading import Event

import pytest
import torch

from app.engine.cached_model import CachedModel
from app.engine.decoding import rounds
from app.engine.opening import PREFILL_CHUNK
from app.records import GenerationRequest, Message
from tests.helpers import tiny
from tests.helpers.replies import emitted, plain, reply, request
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, scripted_pair

TARGET = last_two_tokens(seed=4, vocabulary=6)
ASSISTANT = mixed(TARGET, last_two_tokens(seed=5, vocabulary=6), weight=0.3)
PROMPT = "1 2 3 1 2 0 1 2"
START = [int(word) for word in PROMPT.split()]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("schedule", ["constant", "heuristic"])
@pytest.mark.parametrize("drafter", ["assistant", "lookup", "none"])
def test_after_every_round_the_caches_hold_the_text_but_its_last_token(
    drafter: str, schedule: str, temperature: float
) -> None:
    pair = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    sequence = list(START)
    settings = {"drafter": drafter, "schedule": schedule, "temperature": temperature, "draft_length": 3}
    for each in rounds(pair, request(PROMPT, 40, **settings), Event()):
        sequence += [token.id for token in each.emitted]
        assert pair.target.tokens == sequence[:-1]
        assert pair.assistant is not None
        assert pair.assistant.tokens == sequence[: len(pair.assistant.tokens)]
        assert len(pair.assistant.tokens) < len(sequence)
    assert len(sequence) == len(START) + 40


def test_one_target_pass_a_round_over_the_last_token_and_the_draft() -> None:
    target = ScriptedModel(TARGET, 6)
    finished = reply(scripted_pair(target, ScriptedModel(ASSISTANT, 6)), PROMPT, 30, draft_length=4)
    prefill, *passes = target.fed
    assert prefill == START[:-1]
    assert [len(ids) for ids in passes] == [1 + len(each.candidates) for each in finished]


def test_the_assistant_reads_two_tokens_after_full_acceptance_and_one_otherwise() -> None:
    assistant = ScriptedModel(ASSISTANT, 6)
    stream = rounds(
        scripted_pair(ScriptedModel(TARGET, 6), assistant), request(PROMPT, 40, draft_length=2), Event()
    )
    finished, first_passes = [], []
    while True:
        assistant.fed.clear()
        try:
            finished.append(next(stream))
        except StopIteration:
            break
        first_passes.append([len(ids) for ids in assistant.fed])
    assert first_passes[0] == [len(START) - 1, 1, 1], "the prompt, its last token, the first candidate"
    full = 0
    for (before, _), (now, passes) in pairwise(zip(finished, first_passes, strict=True)):
        if now.candidates:
            all_stood = before.num_accepted == len(before.candidates)
            full += all_stood
            assert passes == [2 if all_stood else 1] + [1] * (len(now.candidates) - 1)
    assert 0 < full < len(finished) - 2


@pytest.mark.parametrize("drafter", ["lookup", "none"])
def test_an_assistant_that_does_not_draft_reads_nothing(drafter: str) -> None:
    assistant = ScriptedModel(ASSISTANT, 6)
    reply(scripted_pair(ScriptedModel(TARGET, 6), assistant), PROMPT, 10, drafter=drafter)
    assert assistant.fed == []


def test_the_prompt_is_read_in_chunks() -> None:
    target = ScriptedModel(TARGET, 6)
    reply(scripted_pair(target), "1 2 " * PREFILL_CHUNK, 2, drafter="none")
    assert [len(ids) for ids in target.fed] == [PREFILL_CHUNK, PREFILL_CHUNK - 1, 1, 1]


def test_a_second_turn_reads_only_what_is_new() -> None:
    target, assistant = ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6)
    pair = scripted_pair(target, assistant)
    answer = emitted(reply(pair, PROMPT, 10, draft_length=3))
    second = " ".join(str(each) for each in [*START, *answer, 5, 4, 3])
    target.fed.clear()
    assistant.fed.clear()
    again = emitted(reply(pair, second, 10, draft_length=3))
    assert target.fed[0] == [answer[-1], 5, 4], (
        "all but the new turn's last token, which opens the first round"
    )
    assert sum(len(ids) for ids in assistant.fed[:1]) <= 3 + 2
    fresh = scripted_pair(ScriptedModel(TARGET, 6), ScriptedModel(ASSISTANT, 6))
    assert again == emitted(reply(fresh, second, 10, draft_length=3))


@pytest.mark.parametrize("kind", ["llama", "mistral-sliding", "gemma3-sliding"])
def test_later_turns_write_what_a_fresh_model_writes(kind: str) -> None:
    """Also behind a sliding window, whose lost tokens nobody could bring back (D8)."""
    target = tiny.model(kind)
    used = tiny.pair(target, tiny.noisy(target, 0.1))
    first = Message("user", "The ships count the lighthouse.")
    turns = [first, Message("assistant", "They do."), Message("user", "Why?")]
    for messages in (turns[:1], turns, turns[:1], [Message("user", "A small model drafts.")]):
        wanted = GenerationRequest(tuple(messages), max_new_tokens=16)
        fresh = tiny.pair(target, tiny.noisy(target, 0.1))
        assert emitted(rounds(used, wanted, Event())) == emitted(rounds(fresh, wanted, Event()))


@pytest.mark.parametrize("failing", ["target", "assistant"])
@pytest.mark.parametrize("failing_pass", [1, 2, 4, 6])
def test_a_failing_pass_leaves_the_pair_usable(
    failing: str, failing_pass: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure comes from inside, when some layers already hold the new keys and others do not."""
    model = tiny.model("llama")
    pair = tiny.pair(model, tiny.noisy(model, 0.1))
    prompt = "The ships count the lighthouse, and the ships"
    expected = plain(tiny.pair(model), prompt, 16)
    last_layer = getattr(pair, failing).model.model.layers[-1]
    original, calls = last_layer.forward, 0

    def forward(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == failing_pass:
            raise RuntimeError("out of memory")
        return original(*args, **kwargs)

    monkeypatch.setattr(last_layer, "forward", forward)
    with pytest.raises(RuntimeError, match="out of memory"):
        reply(pair, prompt, 16, draft_length=3)
    assert emitted(reply(pair, prompt, 16, draft_length=3)) == expected


def test_an_abandoned_reply_leaves_the_pair_usable() -> None:
    model = tiny.model("llama")
    pair = tiny.pair(model, tiny.noisy(model, 0.1))
    prompt = "The ships count the lighthouse, and the ships"
    stream = rounds(pair, request(prompt, 16), Event())
    next(stream)
    stream.close()
    assert emitted(reply(pair, prompt, 16)) == plain(tiny.pair(model), prompt, 16)


def test_models_are_left_as_they_were() -> None:
    model = tiny.model("llama")
    assistant = tiny.noisy(model, 0.1)
    before = [
        copy.deepcopy((each.generation_config.to_dict(), each.config.to_dict()))
        for each in (model, assistant)
    ]
    weights = [weight.clone() for weight in model.parameters()]
    pair = tiny.pair(model, assistant)
    for temperature in (0.0, 1.0, 0.0):
        reply(pair, "The ships", 12, temperature=temperature, draft_length=3)
    after = [(each.generation_config.to_dict(), each.config.to_dict()) for each in (model, assistant)]
    assert after == before
    assert all(torch.equal(old, new) for old, new in zip(weights, model.parameters(), strict=True))
    assert not model.training


def test_cropping_and_rereading_gives_the_same_logits() -> None:
    cached = CachedModel(tiny.model("gemma2-sliding"))
    words = list(range(40, 70))
    rows = cached.forward(words)
    cached.crop(12)
    assert cached.tokens == words[:12]
    assert torch.allclose(cached.forward(words[12:]), rows[12:], atol=1e-12)
    cached.crop(99)
    assert cached.tokens == words
    assert cached.keep_prefix([*words[:20], 1, *words[21:]]) == 20
    assert torch.allclose(cached.forward(words[20:25], keep=2), rows[23:25], atol=1e-12)
