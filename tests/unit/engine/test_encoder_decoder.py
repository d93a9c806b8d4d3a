"""T5- and BART-like pairs: assisted text is the plain text is what transformers' generate() writes."""

from __future__ import annotations

from functools import cache
from itertools import product
from threading import Event
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from app.engine.cached_model import CachedModel, ModelPair
from app.engine.decoding import rounds, rounds_of
from app.engine.encoder_decoder import CrossAttendingDecoder, Encoder, EncoderDecoderModel, with_source
from app.engine.text import ChatText
from app.errors import UserFacingError
from app.records import PairSummary
from tests.helpers import tiny
from tests.helpers.replies import count, emitted, plain, reply, request

PROMPT = "The ships count the lighthouse, and the ships"
LENGTH = 24
SCHEDULES = ("constant", "heuristic", "confidence", "automatic")


def pair_with(target: PreTrainedModel, assistant: PreTrainedModel | None = None) -> ModelPair:
    """A completer's tokenizer: such models have no chat template."""
    reader = with_source(target)
    helper = None if assistant is None else with_source(assistant, reader)
    described = PairSummary("target", "assistant", "cpu", "float64", reader.context_length)
    return ModelPair(reader, helper, ChatText(tiny.tokenizer(None)), frozenset({1}), described)


@cache
def pair_of(kind: str) -> ModelPair:
    target = tiny.model(kind)
    return pair_with(target, tiny.noisy(target, 0.1))


@cache
def generated(kind: str) -> list[int]:
    """Without the tokens that a reply starts with."""
    pair = pair_of(kind)
    prompt = pair.text.encode(request(PROMPT).messages)
    start = pair.target.begin(prompt)
    output = pair.target.model.generate(
        torch.tensor([prompt]), do_sample=False, max_new_tokens=LENGTH + len(start) - 1
    )
    assert output[0, : len(start)].tolist() == start
    ids: list[int] = output[0, len(start) :].tolist()
    return ids


@pytest.mark.parametrize("kind", tiny.WITH_SOURCE)
def test_plain_text_is_what_generate_writes(kind: str) -> None:
    assert plain(pair_of(kind), PROMPT, LENGTH) == generated(kind)
    assert len(set(generated(kind))) > 4, "a text worth comparing"


@pytest.mark.parametrize("kind", tiny.WITH_SOURCE)
@pytest.mark.parametrize("drafter", ["assistant", "lookup", "hybrid", "early-exit"])
def test_assisted_text_is_what_generate_writes(kind: str, drafter: str) -> None:
    judged = accepted = 0
    for draft_length, schedule in product((1, 4), SCHEDULES):
        finished = reply(
            pair_of(kind), PROMPT, LENGTH, drafter=drafter, draft_length=draft_length, schedule=schedule
        )
        assert emitted(finished) == generated(kind), f"{draft_length} {schedule}"
        judged += count(finished, "num_judged")
        accepted += count(finished, "num_accepted")
    assert judged > 0 or drafter == "lookup", "not every text repeats itself"
    assert accepted > 0 or drafter in ("early-exit", "lookup")


def test_the_source_matters() -> None:
    assert plain(pair_of("t5"), "A small model drafts.", LENGTH) != generated("t5")


@pytest.mark.parametrize(("same_encoder", "readings"), [(True, 1), (False, 2)])
def test_an_assistant_with_the_same_encoder_shares_its_reading(same_encoder: bool, readings: int) -> None:
    target = tiny.model("bart")
    assistant = tiny.noisy(target, 0.1)
    if same_encoder:
        assistant.model.encoder.load_state_dict(target.model.encoder.state_dict())
    pair = pair_with(target, assistant)
    passes: list[None] = []
    for model in (target, assistant):
        model.get_encoder().register_forward_hook(lambda *_: passes.append(None))
    assert emitted(reply(pair, PROMPT, LENGTH, draft_length=3)) == plain(pair_of("bart"), PROMPT, LENGTH)
    assert len(passes) == readings


def test_a_decoder_that_reads_the_targets_encoder_drafts() -> None:
    target = tiny.model("bart")
    pair = pair_with(target, tiny.decoder_of(target))
    assert isinstance(pair.assistant, CrossAttendingDecoder)
    finished = reply(pair, PROMPT, LENGTH, draft_length=3)
    assert emitted(finished) == generated("bart")
    assert count(finished, "num_accepted") == count(finished, "num_judged") > LENGTH / 2, "the same decoder"
    other = pair_with(target, tiny.noisy(tiny.decoder_of(target), 0.15))
    finished = reply(other, PROMPT, LENGTH, draft_length=3)
    assert emitted(finished) == generated("bart")
    assert 0 < count(finished, "num_accepted") < count(finished, "num_judged")


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_sampled_text_is_plain_sampling_with_the_same_seed(kind: str) -> None:
    sampled: dict[str, Any] = {"temperature": 0.9, "seed": 4}
    expected = plain(pair_of(kind), PROMPT, LENGTH, **sampled)
    finished = reply(pair_of(kind), PROMPT, LENGTH, rule="sample-match", draft_length=3, **sampled)
    assert emitted(finished) == expected


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_another_text_and_the_first_again(kind: str) -> None:
    """The caches of one source are of no use for another."""
    pair = pair_with(tiny.model(kind), tiny.noisy(tiny.model(kind), 0.1))
    other = emitted(reply(pair, "A small model drafts.", LENGTH))
    assert other == plain(pair_of(kind), "A small model drafts.", LENGTH)
    assert emitted(reply(pair, PROMPT, LENGTH)) == generated(kind)


@pytest.mark.parametrize("drafter", ["assistant", "early-exit", "none"])
@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_several_replies_to_different_texts(kind: str, drafter: str) -> None:
    requests = [request(text, LENGTH, drafter=drafter) for text in (PROMPT, "A small model", "Zwölf")]
    finished = list(rounds_of(pair_of(kind), requests, Event()))
    for variant, asked in enumerate(requests):
        own = [each for each in finished if each.variant == variant]
        assert emitted(own) == plain(pair_of(kind), asked.messages[0].content, LENGTH)


def test_stop_ends_the_reply_and_the_next_one_is_right() -> None:
    stop, pair = Event(), pair_of("t5")
    for each in rounds(pair, request(PROMPT, LENGTH), stop):
        assert each.finish_reason is None
        stop.set()
    assert emitted(reply(pair, PROMPT, LENGTH)) == generated("t5")


def test_a_text_longer_than_the_encoder_holds_is_refused() -> None:
    with pytest.raises(UserFacingError, match="longer than the model can read") as caught:
        reply(pair_of("bart"), "word and word " * 60, 5)
    assert caught.value.remedy


def test_the_latest_texts_are_remembered_and_no_more() -> None:
    encoder = Encoder(tiny.model("t5"))
    first = encoder.read([5, 6, 7])
    assert encoder.read((5, 6, 7)) is first
    for token in range(20):
        encoder.read([token])
    assert encoder.read([5, 6, 7]) is not first


def test_the_right_face_is_chosen() -> None:
    target = with_source(tiny.model("t5"))
    assert isinstance(target, EncoderDecoderModel)
    assert target.num_layers == tiny.T5_SHAPE["num_decoder_layers"]
    shallow = target.first_layers(1)
    assert isinstance(shallow, EncoderDecoderModel)
    assert isinstance(shallow, CachedModel) and shallow.num_layers == 1
    assert shallow.encoder is target.encoder
