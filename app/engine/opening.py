"""Everything before the first round: who drafts, one Reply per request, and the prompts read into the caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event
from time import perf_counter
from typing import assert_never

from app.engine.batch import spread
from app.engine.cached_model import CachedModel, ModelPair, common_prefix
from app.engine.draft_length import make_draft_length
from app.engine.drafters import Drafter
from app.engine.drafters.assistant import AssistantDrafter
from app.engine.drafters.early_exit import num_exit_layers
from app.engine.drafters.hybrid import HybridDrafter
from app.engine.drafters.nothing import NoDrafter
from app.engine.drafters.other_tokenizer import make_other_tokenizer_drafter
from app.engine.drafters.prompt_lookup import PromptLookup
from app.engine.ending import Ending
from app.engine.recording import Recorder
from app.engine.reply import Reply
from app.engine.rules import choose_rule, make_verifier
from app.engine.sampling import Sampler, keyed_noise
from app.errors import UserFacingError
from app.records import DraftSettings, GenerationRequest, Progress, SamplingSettings

PREFILL_CHUNK = 128
"""Prompt tokens per forward pass of the prefill: between two of them Stop is looked at."""

Report = Callable[[Progress], None]


def open_replies(
    pair: ModelPair, requests: Sequence[GenerationRequest], stop: Event, report: Report
) -> list[Reply]:
    """The replies to these requests, with all of their prompts but the last token read by every model.

    What a cache holds from an earlier turn is not read again, and what the prompts share is read once. Raises
    UserFacingError when a prompt does not fit or a request cannot be done.
    """
    began = perf_counter()
    pair = with_drafting_model(pair, requests[0].draft)
    prompts = [pair.text.encode(each.messages) for each in requests]
    replies = [make_reply(pair, requests[0], prompts[0])]
    if len(requests) > 1:
        shared = min(common_prefix(prompts[0], each) for each in prompts)
        read_prompts([replace(replies[0], sequence=replies[0].sequence[:shared])], stop, report)
        pairs = spread_pair(pair, len(requests))
        replies = [
            make_reply(*each) for each in zip(pairs, requests, prompts, range(len(pairs)), strict=True)
        ]
    read_prompts(replies, stop, report)
    replies[0].prefill_seconds = perf_counter() - began
    return replies


def read_prompts(replies: Sequence[Reply], stop: Event, report: Report) -> None:
    """Reads what the caches lack of the sequences but their last tokens, in chunks until `stop` is set."""
    unread: list[tuple[CachedModel, Sequence[int]]] = []
    for each in replies:
        prompt = each.sequence[:-1]
        unread.append((each.target, prompt[each.target.keep_prefix(prompt) :]))
        if each.drafter.model is not None:
            drafted = each.drafter.to_read(prompt)
            unread.append((each.drafter.model, drafted[each.drafter.model.keep_prefix(drafted) :]))
    total, done = sum(len(tokens) for _, tokens in unread), 0
    for model, tokens in unread:
        for start in range(0, len(tokens), PREFILL_CHUNK):
            if stop.is_set():
                return
            report(Progress("Reading the prompt", done / total))
            chunk = tokens[start : start + PREFILL_CHUNK]
            model.forward(chunk, keep=1)  # of the prompt's logits nobody wants more than one row
            done += len(chunk)


def with_drafting_model(pair: ModelPair, draft: DraftSettings) -> ModelPair:
    """The pair whose assistant is the model that drafts: under early exit a part of the target, or none."""
    if not draft.drafts:
        return replace(pair, assistant=None)
    for each in (pair.target, pair.assistant):
        if each is not None and not each.can_roll_back:
            raise UserFacingError(
                "This pair can only write without drafts.",
                "A model with a running state cannot take rejected tokens back.",
                "Choose the drafter none.",
            )
    if draft.drafter == "lookup":
        return replace(pair, assistant=None)
    if draft.drafter == "early-exit":
        count = num_exit_layers(pair.target.num_layers, draft.exit_layer)
        return replace(pair, assistant=pair.target.first_layers(count))
    if pair.assistant is None:
        raise UserFacingError(
            "No assistant is loaded.", "", "Load a pair with an assistant, or choose another drafter."
        )
    return pair


def spread_pair(pair: ModelPair, count: int) -> list[ModelPair]:
    """A pair for each of `count` sequences, with what was read so far in every cache."""
    targets = spread(pair.target, count)
    assistants = [None] * count if pair.assistant is None else spread(pair.assistant, count)
    return [
        replace(pair, target=target, assistant=assistant)
        for target, assistant in zip(targets, assistants, strict=True)
    ]


def make_reply(pair: ModelPair, request: GenerationRequest, prompt: Sequence[int], variant: int = 0) -> Reply:
    """A reply that has written nothing yet, nor read anything of its prompt."""
    _require_tokens(request.sampling, pair.target.vocabulary_size)
    sequence = pair.target.begin(prompt)
    if pair.assistant is not None:
        pair.assistant.begin(prompt)
    sampler = Sampler(request.sampling, len(sequence))
    return Reply(
        sequence=sequence,
        target=pair.target,
        drafter=make_drafter(pair, request, sampler),
        length=make_draft_length(request.draft, pair.schedules),
        sampler=sampler,
        noise=keyed_noise(request.sampling.seed),
        verify=make_verifier(choose_rule(request.draft, request.sampling)),
        ending=Ending(
            pair.text,
            pair.eos_ids,
            request.stop_strings,
            len(sequence),
            request.max_new_tokens,
            pair.target.context_length,
        ),
        recorder=Recorder(pair.text, request.alternatives, variant),
    )


def _require_tokens(sampling: SamplingSettings, vocabulary_size: int) -> None:
    """Raises UserFacingError for a logit bias on a token that the target does not have."""
    for token, _ in sampling.logit_bias:
        if not 0 <= token < vocabulary_size:
            raise UserFacingError(
                f"There is no token {token}.",
                "A logit bias names it.",
                f"The target's tokens are 0 to {vocabulary_size - 1:,}.",
            )


def make_drafter(pair: ModelPair, request: GenerationRequest, sampler: Sampler) -> Drafter:
    """The drafter of `request`, for a pair whose assistant is the model that drafts."""
    if not request.draft.drafts:
        return NoDrafter()
    match request.draft.drafter:
        case "none":
            return NoDrafter()
        case "lookup":
            return PromptLookup()
        case "assistant" | "early-exit":
            return _model_drafter(pair, request, sampler)
        case "hybrid":
            return HybridDrafter(_model_drafter(pair, request, sampler))
        case _:
            assert_never(request.draft.drafter)


def _model_drafter(pair: ModelPair, request: GenerationRequest, sampler: Sampler) -> Drafter:
    assert pair.assistant is not None
    draft = request.draft
    draws = choose_rule(draft, request.sampling) == "speculative"
    noise = keyed_noise(request.sampling.seed) if draws else None
    threshold = draft.confidence_threshold if draft.schedule == "confidence" else 0.0
    if pair.assistant_text is not None and draft.drafter != "early-exit":
        return make_other_tokenizer_drafter(pair, request.messages, sampler, noise, threshold)
    return AssistantDrafter(
        pair.assistant,
        sampler,
        pair.eos_ids,
        noise,
        pair.target.vocabulary_size,
        threshold=threshold,
        source="early-exit" if draft.drafter == "early-exit" else "assistant",
    )
