"""An assistant with another tokenizer drafts: text is what the two models have in common.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous
Vocabularies", arXiv 2502.05202. First choices are drafted in the assistant's tokens, and their text is encoded
again by the target's tokenizer (string-level exact match). Drawn candidates come from the assistant's
distribution over the tokens that mean the same in both vocabularies (token-level intersection), which is a
distribution over the target's tokens: so the rule for drawn drafts holds as it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from app.engine.cached_model import CachedModel, ModelPair, common_prefix
from app.engine.drafters import Draft, Drafting, Limit
from app.engine.sampling import Noise, Sampler, draw
from app.engine.text import INCOMPLETE, ChatText, Detokeniser
from app.errors import UserFacingError
from app.records import Message, Source

LOOK_BEHIND = 64
"""Characters of known text that are encoded again with what is new: no token's borders depend on more."""

CONTEXT = 8
"""Tokens of the assistant that are decoded along with its draft, so that the draft's first token keeps its space."""

BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")

END = ""
"""The meaning of an end-of-sequence token; no other token has an empty one."""


class OtherTokens:
    """The target's sequence in the tokens of another tokenizer, as it grows.

    `ids` begin with `prompt`, which stands for the first `num_heard` tokens of the sequence. The text of the
    others follows; of it only the end is encoded again when more comes. Special tokens of the target mean
    nothing to another model and are left out, and text that looks like a special token remains text. The
    tokens of a character that is not complete yet are held back in `held`.
    """

    def __init__(self, target: ChatText, own: ChatText, prompt: Sequence[int], num_heard: int) -> None:
        self.ids = list(prompt)
        self.own = own
        self.held: list[int] = []  # in the target's tokens
        self._target = target
        self._num_prompt = len(self.ids)
        self._num_heard = num_heard
        self._detokeniser = Detokeniser(target)
        self._text = ""
        self._starts: list[int] = []  # where in the text each of ids[num_prompt:] begins

    def hear(self, sequence: Sequence[int]) -> int:
        """Takes what `sequence` has more than last time; returns how many ids at the front stayed as they were."""
        pieces = [self._push(token) for token in sequence[self._num_heard :]]
        self._num_heard = max(self._num_heard, len(sequence))
        return self._append("".join(pieces)) if any(pieces) else len(self.ids)

    def _push(self, token: int) -> str:
        if self._target.is_special(token):
            return ""
        piece = self._detokeniser.push(token)
        self.held = [] if piece else [*self.held, token]
        return piece

    def _append(self, piece: str) -> int:
        kept = bisect_left(self._starts, len(self._text) - LOOK_BEHIND)
        anchor = self._starts[kept] if kept < len(self._starts) else len(self._text)
        self._text += piece
        tokens = tokens_behind(self.own, self._before(anchor), self._text[anchor:])
        self.ids[self._num_prompt + kept :] = [token for token, _ in tokens]
        self._starts[kept:] = [anchor + start for _, start in tokens]
        return self._num_prompt + kept

    def translate(self, drafted: Sequence[int]) -> list[int]:
        """What `drafted`, tokens of the other tokenizer behind `ids`, are in the target's tokens.

        Nothing where the target is inside a character and the draft does not complete it as the target began.
        """
        speaker = Detokeniser(self.own)
        for token in self.ids[max(self._num_prompt, len(self.ids) - CONTEXT) :]:
            speaker.push(token)
        new = "".join(map(speaker.push, drafted))
        ids = [token for token, _ in tokens_behind(self._target, self._before(len(self._text)), new)]
        return ids[len(self.held) :] if ids[: len(self.held)] == self.held else []

    def _before(self, place: int) -> str:
        return self._text[max(0, place - LOOK_BEHIND) : place]


def tokens_behind(text: ChatText, known: str, new: str) -> list[tuple[int, int]]:
    """The tokens of `new` where it follows `known`, each with the place in `new` at which it begins.

    Where one token would reach across the border, `new` is encoded by itself. Needs a fast tokenizer, which
    tells what part of the text each token covers.
    """
    encoded: Any = text.tokenizer(
        known + new, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True
    )
    border, spans = len(known), encoded["offset_mapping"]
    if any(start < border < end for start, end in spans):
        return tokens_behind(text, "", new)
    # Some tokenizers leave white space out of a span, and then that of a lone space is empty.
    return [
        (token, start - border)
        for token, (start, end) in zip(encoded["input_ids"], spans, strict=True)
        if not known or (start >= border and end > border)
    ]


class _OtherTokenizerDrafter:
    """What both ways share: the assistant has read the sequence in its own tokens."""

    source: Source = "assistant"

    def __init__(self, assistant: CachedModel, tokens: OtherTokens, threshold: float) -> None:
        self.model = assistant
        self._tokens = tokens
        self._threshold = threshold

    def to_read(self, prompt: Sequence[int]) -> Sequence[int]:
        """The prompt in the assistant's tokens but for the last; nothing where it fills the context."""
        self._tokens.hear(prompt)
        ids = self._tokens.ids[:-1]
        return ids if len(ids) + 1 < self.model.context_length else ()

    def crop(self, length: int) -> None:
        """What was rejected is forgotten when the next draft begins: the text decides what stays, not a length."""

    def _catch_up(self, sequence: Sequence[int]) -> list[int]:
        """What the assistant lacks of the sequence, one token at least; its cache is cropped to what stands.

        Only the end is compared: what it has read of the front it read there, and that has not changed since.
        """
        ids = self._tokens.ids
        front = self._tokens.hear(sequence)
        common = front + common_prefix(self.model.tokens[front:], ids[front:])
        self.model.crop(max(0, min(common, len(ids) - 1)))
        return ids[len(self.model.tokens) :]

    def _room(self, limit: Limit) -> int:
        return min(limit(self.source), self.model.context_length - len(self._tokens.ids))


class ReencodingDrafter(_OtherTokenizerDrafter):
    """Drafts the assistant's first choices, and encodes their text again for the target.

    A draft ends before a special token of the assistant, and behind the first of its tokens that it gave a
    probability below `threshold`. A character that the draft leaves incomplete is left out.
    """

    def draft(self, sequence: Sequence[int], limit: Limit) -> Drafting:
        unread = self._catch_up(sequence)
        count = self._room(limit)
        drafted: list[int] = []
        while unread and len(drafted) < count:
            row = (yield unread).softmax(-1)  # [vocab of the assistant]
            choice = int(row.argmax())
            if self._tokens.own.is_special(choice):
                break
            drafted.append(choice)
            unread = [choice]
            if float(row[choice]) < self._threshold:
                break
        ids = self._tokens.translate(drafted)[:count] if drafted else []
        return Draft(tuple(ids), self.source) if ids else Draft()


class CommonVocabularyDrafter(_OtherTokenizerDrafter):
    """Draws from the assistant's distribution over the tokens that both vocabularies have.

    `vocabulary` maps ids of the target to those of the assistant. All other tokens of the target have
    probability 0; the sampler then acts as on any logits. A draft ends as in AssistantDrafter, and where no
    common token has any probability left.
    """

    def __init__(
        self,
        assistant: CachedModel,
        tokens: OtherTokens,
        threshold: float,
        vocabulary: dict[int, int],
        vocabulary_size: int,
        sampler: Sampler,
        noise: Noise,
        eos_ids: frozenset[int],
    ) -> None:
        super().__init__(assistant, tokens, threshold)
        self._vocabulary = vocabulary
        self._index = torch.tensor([list(vocabulary), list(vocabulary.values())])  # [2, common]
        self._size = vocabulary_size
        self._sampler = sampler
        self._noise = noise
        self._eos_ids = eos_ids

    def draft(self, sequence: Sequence[int], limit: Limit) -> Drafting:
        unread = self._catch_up(sequence)
        # Inside a character no common token can follow: each stands for whole ones.
        count = 0 if self._tokens.held or not self._vocabulary else self._room(limit)
        ids: list[int] = []
        rows: list[torch.Tensor] = []  # each [vocab of the target]
        while unread and len(ids) < count:
            logits = self._translate((yield unread))
            row = self._sampler.probabilities(logits[None], sequence, ids)[0]
            if bool(row.isnan().any()):
                break
            rows.append(row)
            ids.append(draw(row, self._noise("draft", len(sequence) + len(ids))))
            unread = [self._vocabulary[ids[-1]]]
            if ids[-1] in self._eos_ids or float(row[ids[-1]]) < self._threshold:
                break
        return Draft(tuple(ids), self.source, torch.stack(rows), drawn=True) if ids else Draft()

    def _translate(self, logits: torch.Tensor) -> torch.Tensor:
        """The assistant's logits [its vocab] as logits [vocab of the target]."""
        self._index = self._index.to(logits.device)
        theirs, ours = self._index
        return logits.new_full((self._size,), -torch.inf).index_copy(0, theirs, logits[ours])


@lru_cache(maxsize=1)  # one pair is loaded at a time
def common_vocabulary(target: ChatText, assistant: ChatText) -> dict[int, int]:
    """The target's ids of all tokens that mean the same text in both vocabularies -> the assistant's ids."""
    theirs, ours = meanings(target), meanings(assistant)
    return {token: ours[meaning] for meaning, token in theirs.items() if meaning in ours}


def meanings(text: ChatText) -> dict[str, int]:
    """What each token adds to a text that it follows -> its id. Tokens of parts of characters have no meaning.

    A token's text behind itself tells: at the start of a text some tokenizers drop a space. Where a letter
    also has a byte token, that is the one which is never written.
    """
    tokenizer: Any = text.tokenizer
    names = {token: name for name, token in tokenizer.get_vocab().items()}
    ids = sorted(names, key=lambda token: (not BYTE_TOKEN.fullmatch(names[token]), token))
    once, twice = (
        tokenizer.backend_tokenizer.decode_batch([[token] * count for token in ids], skip_special_tokens=True)
        for count in (1, 2)
    )
    added = [both[len(one) :] for one, both in zip(once, twice, strict=True)]
    found = {each: token for each, token in zip(added, ids, strict=True) if each and INCOMPLETE not in each}
    return found if tokenizer.eos_token_id is None else {**found, END: tokenizer.eos_token_id}


def make_other_tokenizer_drafter(
    pair: ModelPair, messages: Sequence[Message], sampler: Sampler, noise: Noise | None, threshold: float
) -> ReencodingDrafter | CommonVocabularyDrafter:
    """The drafter for a pair with two tokenizers: it draws when `noise` is given, else takes first choices."""
    own, assistant = pair.assistant_text, pair.assistant
    assert own is not None and assistant is not None
    tokens = OtherTokens(pair.text, own, *own_prompt(pair.text, own, messages, sampler.num_prompt))
    if noise is None:
        return ReencodingDrafter(assistant, tokens, threshold)
    size = pair.target.vocabulary_size
    vocabulary = {
        theirs: ours
        for theirs, ours in common_vocabulary(pair.text, own).items()
        if theirs < size and ours < assistant.vocabulary_size
    }
    return CommonVocabularyDrafter(
        assistant, tokens, threshold, vocabulary, size, sampler, noise, pair.eos_ids
    )


def own_prompt(
    target: ChatText, own: ChatText, messages: Sequence[Message], num_prompt: int
) -> tuple[list[int], int]:
    """What the assistant reads before the text, and for how many of the target's tokens that stands.

    A conversation is read in the assistant's own chat template, which it understands best. Where it refuses
    that, or one of the two completes texts and has none, it reads the text of the target's prompt.
    """
    if target.tokenizer.chat_template and own.tokenizer.chat_template:
        try:
            return own.encode(messages), num_prompt
        except UserFacingError:
            pass  # some templates know no system message: what can be written plainly can still be drafted
    return list(own.tokenizer("")["input_ids"]), 0
