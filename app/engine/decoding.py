"""Assisted generation: draft, verify in one forward pass, keep the prefix that stands. One round per step.

Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", arXiv 2211.17192.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event
from time import perf_counter

import torch

from app.engine.batch import draft_together, forward_together
from app.engine.cached_model import ModelPair
from app.engine.drafters import Draft
from app.engine.opening import Report, open_replies
from app.engine.reply import Reply
from app.engine.sampling import shift
from app.records import GenerationRequest, Progress, Round


def _nobody(progress: Progress) -> None:
    """Hears the progress of those who did not ask for it."""


def rounds(
    pair: ModelPair, request: GenerationRequest, stop: Event, report: Report = _nobody
) -> Iterator[Round]:
    """Generates the replies to `request.messages`, yielding every verification round as it ends.

    The last round of a reply carries the finish reason; none does when `stop` was set. `report` hears how
    much of the prompt has been read. Raises UserFacingError when the prompt does not fit, the pair cannot do
    what is asked, or the rule would not be exact with these settings.
    """
    yield from rounds_of(pair, request.variants(), stop, report)


def rounds_of(
    pair: ModelPair, requests: Sequence[GenerationRequest], stop: Event, report: Report = _nobody
) -> Iterator[Round]:
    """The rounds of one reply to each request, which share their forward passes; usually there is one.

    The requests have their drafter in common. Each step drafts for all replies, lets the target read all
    drafts, and judges them one by one. Between rounds the target's cache holds a sequence but its last token.
    """
    replies = open_replies(pair, requests, stop, report)
    while replies and not stop.is_set():
        began = perf_counter()
        drafts = draft_together([(reply.drafter.model, reply.draft()) for reply in replies], stop)
        drafted = perf_counter()
        if stop.is_set():
            break
        unread = [[reply.sequence[-1], *draft.ids] for reply, draft in zip(replies, drafts, strict=True)]
        passes = forward_together([reply.target for reply in replies], unread)
        verified = perf_counter()
        shares = ((drafted - began) / len(replies), (verified - drafted) / len(replies))
        for reply, draft, logits in zip(replies, drafts, passes, strict=True):
            yield judge(reply, draft, logits, shares)
        replies = [reply for reply in replies if reply.finish_reason is None]


def judge(reply: Reply, draft: Draft, logits: torch.Tensor, shares: tuple[float, float]) -> Round:
    """Ends a round: decides which candidates stand, adds them and the target's own token, rolls both caches back.

    `logits` [num_candidates + 1, vocab] are the target's; `shares` the seconds that drafting and the forward
    pass took for this reply.
    """
    began = perf_counter()
    length = len(reply.sequence)
    scores = reply.sampler.scores(logits, reply.sequence, draft.ids)
    target = scores.softmax(-1)
    outcome = reply.verify(draft, scores, target, shift(reply.noise, length))
    cut = reply.ending.cut(draft.ids, outcome)
    reply.finish_reason = cut.finish_reason

    reply.sequence.extend(cut.emitted)
    reply.target.crop(len(reply.sequence) - 1)
    reply.drafter.crop(len(reply.sequence) - 1)

    this_round = reply.recorder.record(
        draft,
        target,
        cut,
        draft_length=reply.in_force(draft),
        times=(*shares, began, perf_counter()),
        prefill_seconds=reply.prefill_seconds,
    )
    reply.prefill_seconds = 0.0
    reply.length.observe(this_round)
    return this_round
