"""Encoder-decoder models such as T5 and BART: the prompt goes through an encoder, the reply starts from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from transformers import Cache, DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from app.engine.cached_model import CachedModel
from app.engine.drafters.early_exit import first_layers
from app.errors import UserFacingError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MOST_REMEMBERED = 8
"""Source texts whose encoding is kept: as many as there are replies in a batch."""


class Encoder:
    """The encoder of a model, which may serve two of them. It remembers the latest source texts."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self._read: dict[tuple[int, ...], torch.Tensor] = {}

    @torch.inference_mode()
    def read(self, source: Sequence[int]) -> torch.Tensor:
        """What the decoder attends to [1, len(source), width]. Raises UserFacingError when the text is too long."""
        key = tuple(source)
        if key not in self._read:
            self._require_room(len(key))
            ids = torch.tensor([key], device=self.model.device)
            while len(self._read) >= MOST_REMEMBERED:
                del self._read[next(iter(self._read))]
            self._read[key] = self.model.get_encoder()(input_ids=ids).last_hidden_state
        return self._read[key]

    def _require_room(self, length: int) -> None:
        room = getattr(self.model.config, "max_position_embeddings", None)
        if room is not None and length > room:
            raise UserFacingError(
                "The text is longer than the model can read.",
                f"It has {length:,} tokens; the model's encoder holds {room:,}.",
                "Start a new chat, or shorten the message.",
            )


class _ReadsASource(CachedModel):
    """A decoder that attends to the encoding of a source text beside what it has written."""

    def __init__(self, model: PreTrainedModel, encoder: Encoder) -> None:
        super().__init__(model)
        self.encoder = encoder
        self._source: list[int] | None = None

    def begin(self, prompt: Sequence[int]) -> list[int]:
        """Reads `prompt` as the source text; the reply is written behind the tokens that every reply starts with.

        A token that the model's settings force at its longest output is not forced: a token budget cuts a reply,
        it does not end it.
        """
        if self._source != list(prompt):
            self._encoded = self.encoder.read(prompt)  # [1, len(prompt), width]
            self._source = list(prompt)
            self.crop(0)  # what was written so far had another source
        return self._start()

    def _start(self) -> list[int]:
        settings = self.encoder.model.generation_config
        start = settings.decoder_start_token_id
        ids = (settings.bos_token_id if start is None else start, settings.forced_bos_token_id)
        return [each for each in ids if each is not None]

    def _make_cache(self) -> Cache:
        return EncoderDecoderCache(DynamicCache(), DynamicCache())


class EncoderDecoderModel(_ReadsASource):
    """A whole encoder-decoder model. Its encoder may be another model's, where the two are the same."""

    def _pass(self, input_ids: torch.Tensor, keep: int) -> torch.Tensor:
        output = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=self._encoded),
            decoder_input_ids=input_ids,
            cache=self.cache,
            use_cache=True,
        )
        logits: torch.Tensor = output.logits[:, -keep:]
        return logits

    def _make_first_layers(self, count: int) -> CachedModel:
        return EncoderDecoderModel(first_layers(self.model, count), self.encoder)


class CrossAttendingDecoder(_ReadsASource):
    """A decoder without an encoder of its own, which reads the target's."""

    def _pass(self, input_ids: torch.Tensor, keep: int) -> torch.Tensor:
        output = self.model(
            input_ids=input_ids,
            encoder_hidden_states=self._encoded,
            cache=self.cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        logits: torch.Tensor = output.logits
        return logits


def with_source(model: PreTrainedModel, target: CachedModel | None = None) -> CachedModel:
    """An encoder-decoder model, or an assistant that reads the encoder of `target`, behind CachedModel's face."""
    lender = target.encoder if isinstance(target, _ReadsASource) else None
    if not model.config.is_encoder_decoder:
        assert lender is not None, "models/pair.py refuses other pairs"
        return CrossAttendingDecoder(model, lender)
    shares = lender is not None and _same_weights(model.get_encoder(), lender.model.get_encoder())
    return EncoderDecoderModel(model, lender if lender is not None and shares else Encoder(model))


def _same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(
        mine[name].shape == theirs[name].shape and torch.equal(mine[name], theirs[name]) for name in mine
    )
