"""Assisted generation: draft, verify in one forward pass, keep the prefix that stands. One round per step.

Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", arXiv 2211.17192.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event
from time import perf_counter
from typing import assert_never

from app.engine.cached_model import CachedModel, ModelPair
from app.engine.draft_length import make_draft_length
from app.engine.drafters import Drafter
from app.engine.drafters.assistant import AssistantDrafter
from app.engine.drafters.nothing import NoDrafter
from app.engine.drafters.prompt_lookup import PromptLookup
from app.engine.ending import Ending
from app.engine.recording import Recorder
from app.engine.rules import choose_rule, make_verifier
from app.engine.sampling import Noise, Sampler, keyed_noise, shift
from app.errors import UserFacingError
from app.records import GenerationRequest, Progress, Round, Rule

PREFILL_CHUNK = 128
"""Prompt tokens per forward pass of the prefill: between two of them Stop is looked at."""

Report = Callable[[Progress], None]


def rounds(
    pair: ModelPair, request: GenerationRequest, stop: Event, report: Report = lambda progress: None
) -> Iterator[Round]:
    """Generates the reply to `request.messages`, yielding every verification round as it ends.

    The last round carries the finish reason; none does when `stop` was set. `report` hears how much of the
    prompt has been read. Between rounds the target's cache holds all tokens but the last. Raises
    UserFacingError when the prompt does not fit, or the rule would not be exact with these settings.
    """
    rule = choose_rule(request.draft, request.sampling)
    verify = make_verifier(rule)
    sampler = Sampler(request.sampling)
    noise = keyed_noise(request.sampling.seed)
    drafter = make_drafter(pair, request, rule, sampler, noise)
    length = make_draft_length(request.draft)
    recorder = Recorder(pair.text)
    sequence = pair.text.encode(request.messages)
    ending = Ending(pair.eos_ids, len(sequence), request.max_new_tokens, pair.target.context_length)
    prefill_seconds = prefill(pair, request, sequence, stop, report)

    finish_reason = None
    while finish_reason is None and not stop.is_set():
        began = perf_counter()
        draft = drafter.draft(sequence, min(length.current, ending.remaining - 1), stop)
        drafted = perf_counter()
        if stop.is_set():
            break
        logits = pair.target.forward([sequence[-1], *draft.ids])  # [num_candidates + 1, vocab]
        target = sampler.probabilities(logits)
        outcome = ending.cut(draft.ids, verify(draft, logits, target, shift(noise, len(sequence))))
        verified = perf_counter()

        emitted = outcome.emitted(draft.ids)
        sequence.extend(emitted)
        pair.target.crop(len(sequence) - 1)
        drafter.crop(len(sequence) - 1)

        finish_reason = ending.count(emitted)
        this_round = recorder.record(
            draft,
            target,
            outcome,
            draft_length=length.current,
            times=(began, drafted, verified),
            prefill_seconds=prefill_seconds,
            finish_reason=finish_reason,
        )
        length.observe(len(draft.ids), outcome.num_accepted)
        prefill_seconds = 0.0
        yield this_round


def prefill(
    pair: ModelPair, request: GenerationRequest, sequence: Sequence[int], stop: Event, report: Report
) -> float:
    """Reads the prompt but its last token into every cache that takes part; returns the seconds it took.

    What a cache shares with the prompt, from an earlier turn, is kept and not read again. An assistant whose
    context the prompt fills could draft nothing, and reads nothing.
    """
    began = perf_counter()
    prompt = sequence[:-1]
    readers = [pair.target]
    if uses_assistant(request) and pair.assistant and len(sequence) < pair.assistant.context_length:
        readers.append(pair.assistant)
    unread = [(model, model.keep_prefix(prompt)) for model in readers]
    total = sum(len(prompt) - known for _, known in unread)
    read = 0
    for model, known in unread:
        for start in range(known, len(prompt), PREFILL_CHUNK):
            if stop.is_set():
                return perf_counter() - began
            report(Progress("Reading the prompt", read / total))
            read += _read(model, prompt[start : start + PREFILL_CHUNK])
    return perf_counter() - began


def _read(model: CachedModel, chunk: Sequence[int]) -> int:
    """Feeds a chunk of the prompt and returns its length; of its logits nobody wants more than one row."""
    model.forward(chunk, keep=1)
    return len(chunk)


def uses_assistant(request: GenerationRequest) -> bool:
    return request.draft.drafter == "assistant" and request.draft.draft_length > 0


def make_drafter(
    pair: ModelPair, request: GenerationRequest, rule: Rule, sampler: Sampler, noise: Noise
) -> Drafter:
    """The drafter of `request`. Raises UserFacingError when it needs an assistant and none is loaded."""
    if request.draft.draft_length == 0:
        return NoDrafter()
    match request.draft.drafter:
        case "none":
            return NoDrafter()
        case "lookup":
            return PromptLookup()
        case "assistant":
            if pair.assistant is None:
                raise UserFacingError(
                    "No assistant is loaded.", "", "Load a pair with an assistant, or choose another drafter."
                )
            drawn = noise if rule == "speculative" else None
            return AssistantDrafter(pair.assistant, sampler, pair.eos_ids, drawn, pair.target.vocabulary_size)
        case _:
            assert_never(request.draft.drafter)
