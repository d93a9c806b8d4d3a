"""Several replies in one batch: each is what it would be alone, however far the others have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from threading import Event
from typing import Any

import pytest
import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM, Llama4ForCausalLM, Llama4TextConfig

from app.engine import batch
from app.engine.batch import Batch, BatchRow, can_batch, spread
from app.engine.cached_model import CachedModel, ModelPair
from app.engine.decoding import rounds, rounds_of
from app.engine.fast_decoder import FastDecoder
from app.engine.stats import Statistics
from app.engine.text import ChatText
from app.records import GenerationRequest, Round, Trace
from tests.helpers import tiny
from tests.helpers.replies import emitted, plain, reply, request
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, scripted_pair

PROMPTS = (
    "The ships count the lighthouse, and the ships",
    "def area(width, height):\n    return width",
    "Zwölf Boxkämpfer jagen Viktor. " * 3,
    "A",
)
DRAFTERS = ("assistant", "lookup", "hybrid", "early-exit", "none")


def fresh(kind: str) -> ModelPair:
    target = tiny.model(kind)
    return tiny.pair(target, tiny.noisy(target, 0.1))


@cache
def pair_of(kind: str) -> ModelPair:
    return fresh(kind)


def of_variant(finished: Sequence[Round], variant: int) -> list[Round]:
    return [each for each in finished if each.variant == variant]


def together(pair: ModelPair, requests: Sequence[GenerationRequest]) -> list[list[Round]]:
    """The rounds of each request, all in one batch."""
    finished = list(rounds_of(pair, requests, Event()))
    return [of_variant(finished, variant) for variant in range(len(requests))]


def requests_for(drafter: str, **settings: Any) -> list[GenerationRequest]:
    """Prompts of different lengths, replies of different lengths."""
    return [
        request(prompt, 14 + 5 * place, drafter=drafter, draft_length=3, **settings)
        for place, prompt in enumerate(PROMPTS)
    ]


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_family_can_share_a_pass(kind: str) -> None:
    """None of them takes the way of one pass each unnoticed."""
    assert can_batch(CachedModel(tiny.model(kind)))


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_different_prompts_in_the_rows_are_answered_as_each_alone(kind: str, drafter: str) -> None:
    requests = requests_for(drafter)
    for asked, finished in zip(requests, together(pair_of(kind), requests), strict=True):
        alone = list(rounds(pair_of(kind), asked, Event()))
        assert emitted(finished) == emitted(alone)
        assert finished[-1].finish_reason == alone[-1].finish_reason


def test_the_drafts_and_verdicts_are_those_of_each_alone() -> None:
    requests = requests_for("hybrid")
    for asked, finished in zip(requests, together(pair_of("llama"), requests), strict=True):
        alone = list(rounds(pair_of("llama"), asked, Event()))
        assert [shape(each) for each in finished] == [shape(each) for each in alone]
        assert len({each.num_accepted for each in finished}) > 1 or len(finished) < 6


def shape(this_round: Round) -> tuple[Any, ...]:
    ids = tuple(token.id for token in this_round.candidates)
    return this_round.index, this_round.position, ids, this_round.num_accepted, this_round.pieces


@pytest.mark.parametrize("rule", ["speculative", "sample-match"])
@pytest.mark.parametrize("drafter", ["assistant", "hybrid", "early-exit", "none"])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma3-sliding"])
def test_sampled_variants_are_single_runs_of_the_seeds_that_follow(
    kind: str, drafter: str, rule: str
) -> None:
    settings = {"temperature": 0.9, "drafter": drafter, "rule": rule, "draft_length": 3}
    asked = request(PROMPTS[0], 24, seed=7, num_variants=3, **settings)
    finished = tuple(rounds(pair_of(kind), asked, Event()))
    trace = Trace(asked, "speculative", finished)
    assert len(trace.variants) == len(set(trace.texts)) == 3
    for variant, own in enumerate(trace.variants):
        alone = reply(pair_of(kind), PROMPTS[0], 24, seed=7 + variant, **settings)
        assert emitted(own) == emitted(alone)
        assert [shape(each) for each in own] == [shape(each) for each in alone]
    assert trace.finish_reasons == ("length",) * 3


@pytest.mark.parametrize("schedule", ["heuristic", "confidence", "automatic"])
def test_variants_under_every_schedule_are_plain_greedy_text(schedule: str) -> None:
    pair = fresh("llama")
    finished = reply(pair, PROMPTS[0], 30, schedule=schedule, num_variants=2)
    for variant in range(2):
        assert emitted(of_variant(finished, variant)) == plain(pair, PROMPTS[0], 30)


def test_each_variant_has_figures_of_its_own_and_shared_seconds_add_up() -> None:
    finished = reply(pair_of("llama"), PROMPTS[0], 20, temperature=1.0, seed=3, num_variants=4)
    for variant in range(4):
        own = of_variant(finished, variant)
        assert [each.index for each in own] == list(range(len(own)))
        assert [each.position for each in own] == [
            sum(len(before.emitted) for before in own[:place]) for place in range(len(own))
        ]
        assert Statistics.of(own).num_emitted == 20
    assert [each.prefill_seconds > 0 for each in finished] == [True] + [False] * (len(finished) - 1)
    assert Statistics.of(finished).num_emitted == 80


def test_padding_at_the_end_of_the_context_asks_for_no_position_beyond_it() -> None:
    target = tiny.model("gpt2", n_positions=24)
    lone = CachedModel(target)
    lone.forward([5, 6])
    long, short = spread(lone, 2)
    assert isinstance(long, BatchRow)
    long.forward(range(10, 31))
    found = long.together([long, short], [[7], [31, 32, 33, 34]])
    for text, logits in zip(([5, 6, *range(10, 31), 7], [5, 6, 31, 32, 33, 34]), found, strict=True):
        assert torch.allclose(CachedModel(target).forward(text)[-len(logits) :], logits)


def test_all_rows_share_one_pass_of_each_model(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = fresh("llama")
    can_batch(pair.target), can_batch(pair.assistant)  # type: ignore[arg-type]
    passes: list[list[int]] = []
    original = Batch.forward

    def counted(self: Batch, rows: Any, feeds: Any, keep: int = 0) -> Any:
        passes.append([len(ids) for ids in feeds])
        return original(self, rows, feeds, keep)

    monkeypatch.setattr(Batch, "forward", counted)
    finished = reply(pair, PROMPTS[0], 12, drafter="none", temperature=1.0, num_variants=4)
    assert passes == [[1] * 4] * 12
    assert len(finished) == 48


def test_a_row_that_has_ended_is_fed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = fresh("llama")
    requests = [request(PROMPTS[0], count, drafter="none") for count in (3, 9, 5)]
    widths = []
    original = Batch.forward

    def counted(self: Batch, rows: Any, feeds: Any, keep: int = 0) -> Any:
        widths.append(len(rows))
        return original(self, rows, feeds, keep)

    can_batch(pair.target)
    monkeypatch.setattr(Batch, "forward", counted)
    assert [len(emitted(each)) for each in together(pair, requests)] == [3, 9, 5]
    assert widths[-9:] == [3, 3, 3, 2, 2, 1, 1, 1, 1]


def test_the_caches_of_the_pair_are_kept_for_the_next_turn() -> None:
    pair = fresh("llama")
    reply(pair, PROMPTS[0], 10, num_variants=3, temperature=1.0)
    assert pair.assistant is not None
    read = [list(model.tokens) for model in (pair.target, pair.assistant)]
    prompt = pair.text.encode(request(PROMPTS[0]).messages)
    assert read == [prompt[:-1]] * 2, "the prompt was read once, and no variant has written into it"
    assert emitted(reply(pair, PROMPTS[0], 20)) == plain(fresh("llama"), PROMPTS[0], 20)


def test_stop_ends_all_of_them() -> None:
    stop = Event()
    seen = []
    for each in rounds(pair_of("llama"), request(PROMPTS[0], 50, num_variants=3), stop):
        seen.append(each)
        if len(seen) == 7:
            stop.set()
    assert len(seen) <= 9
    trace = Trace(request(PROMPTS[0], 50, num_variants=3), "match", tuple(seen))
    assert trace.finish_reason == "stopped"


@pytest.mark.parametrize("kind", ["llama", "mistral-sliding"])
def test_a_model_that_cannot_share_a_pass_gives_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [emitted(each) for each in together(pair_of(kind), requests_for("assistant"))]
    monkeypatch.setattr(batch, "_agrees", lambda probe: False)
    pair = fresh(kind)
    assert not any(isinstance(each, BatchRow) for each in spread(pair.target, 2))
    assert [emitted(each) for each in together(pair, requests_for("assistant"))] == expected


def test_a_wrong_shared_pass_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sliding window left out of the mask; rows that see their neighbour's slots."""
    whole = Batch._mask
    monkeypatch.setattr(Batch, "_mask", lambda self, seen: whole(self, torch.ones_like(seen)))
    assert not can_batch(CachedModel(tiny.model("llama")))


LIMITED = {
    "gpt-neo": (
        GPTNeoConfig,
        GPTNeoForCausalLM,
        {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 16},
    ),
    "llama4": (
        Llama4TextConfig,
        Llama4ForCausalLM,
        tiny.SHAPE
        | {"layer_types": ["chunked_attention", "full_attention"], "attention_chunk_size": 16}
        | {"intermediate_size_mlp": 48, "num_local_experts": 2},
    ),
}
"""Layers that limit what they see in other ways, beyond the few tokens that are tried out."""


@pytest.mark.parametrize("kind", LIMITED)
def test_other_limits_of_what_a_layer_sees_are_kept_by_every_row(kind: str) -> None:
    """In float32: in float64 such a model's own mask and ours overflow together, which refuses the batch too."""
    config_class, model_class, shape = LIMITED[kind]
    sizes = {"vocab_size": len(tiny.tokenizer()), "hidden_size": 32, "max_position_embeddings": 512}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = model_class(config_class(**{**sizes, **shape, "initializer_range": 0.3}))
    pair = tiny.pair(made.float().eval())
    requests = requests_for("none")
    for asked, finished in zip(requests, together(pair, requests), strict=True):
        assert emitted(finished) == emitted(rounds(pair, asked, Event()))


@pytest.mark.parametrize("drafter", ["assistant", "lookup", "none"])
def test_variants_of_a_prompt_of_one_token_start_with_nothing_read(drafter: str) -> None:
    pair = replace(fresh("llama"), text=ChatText(tiny.tokenizer(None)))
    settings = {"temperature": 0.9, "drafter": drafter}
    assert len(pair.text.encode(request("A").messages)) == 1
    finished = reply(pair, "A", 12, num_variants=2, seed=4, **settings)
    for variant in range(2):
        alone = reply(pair, "A", 12, seed=4 + variant, **settings)
        assert emitted(of_variant(finished, variant)) == emitted(alone)


def test_scripted_models_are_read_one_after_another() -> None:
    script = last_two_tokens(seed=4, vocabulary=6)
    helper = mixed(script, last_two_tokens(seed=5, vocabulary=6), weight=0.3)
    pair = scripted_pair(ScriptedModel(script, 6), ScriptedModel(helper, 6))
    finished = reply(pair, "1 2 3 1 2", 20, temperature=0.8, num_variants=2, seed=1)
    for variant in range(2):
        alone = reply(pair, "1 2 3 1 2", 20, temperature=0.8, seed=1 + variant)
        assert emitted(of_variant(finished, variant)) == emitted(alone)


# -- The fast decoder --------------------------------------------------------------------------------------


def fast_pair() -> ModelPair:
    pair = fresh("llama")
    assert pair.assistant is not None
    return replace(pair, target=FastDecoder(pair.target.model), assistant=FastDecoder(pair.assistant.model))


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_fast_decoder_reads_all_rows_as_one_list(drafter: str) -> None:
    requests = requests_for(drafter)
    for asked, finished in zip(requests, together(fast_pair(), requests), strict=True):
        assert emitted(finished) == emitted(rounds(pair_of("llama"), asked, Event()))


def test_a_fork_has_buffers_of_its_own() -> None:
    lone = FastDecoder(tiny.model("llama"))
    lone.forward([5, 6, 7, 8])
    expected = lone.fork().forward([9, 10, 11])
    other = lone.fork()
    other.forward([20, 21, 22])
    lone.crop(2)
    lone.forward([30, 31])
    assert torch.allclose(lone.fork().forward([1]), lone.forward([1]))
    again = FastDecoder(tiny.model("llama"))
    again.forward([5, 6, 7, 8])
    assert torch.allclose(again.forward([9, 10, 11]), expected)


def test_together_keeps_the_rows_asked_for() -> None:
    one, two = FastDecoder(tiny.model("llama")), FastDecoder(tiny.model("llama"))
    two.tokens, two._layers, two.model = [], two._layers, one.model
    feeds = [[5, 6, 7], [8, 9]]
    last = one.together([one, two], feeds, keep=1)
    assert [each.shape[0] for each in last] == [1, 1]
    for ids, found in zip(feeds, last, strict=True):
        assert torch.allclose(FastDecoder(tiny.model("llama")).forward(ids)[-1:], found)
