"""Several sequences go through one model together, though each advances by a number of tokens of its own."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Any

import torch
from transformers import Cache

from app.engine.cached_model import CachedModel, same_up_to_rounding, widened
from app.engine.drafters import Draft, Drafting


def spread(model: CachedModel, count: int) -> list[CachedModel]:
    """`count` sequences of one model, each having read what `model` has; a single one is the model itself.

    A model that agrees with itself when it reads several sequences in one pass gets rows of a batch, every other
    one copies that read one after another.
    """
    if count == 1:
        return [model]
    if type(model) is CachedModel and can_batch(model):
        return list(Batch(model, count).rows)
    return [model.fork() for _ in range(count)]


def forward_together(
    models: Sequence[CachedModel], feeds: Sequence[Sequence[int]], keep: int = 0
) -> list[torch.Tensor]:
    """What `model.forward(ids, keep)` gives for each sequence, in one pass where the models can share it."""
    return models[0].together(models, feeds, keep)


class RaggedCache(Cache):  # type: ignore[misc]  # transformers' types are not read
    """Keys and values of several rows of different lengths, in buffers [rows, kv_heads, capacity, head_dim].

    A row's tokens lie at 0, 1, 2 ... of its own buffers, whatever the other rows hold. So a rejection shortens a
    row and moves nothing: what lies behind its end is masked, and overwritten later.
    """

    def __init__(self, lone: Cache, count: int) -> None:
        super().__init__(layers=[])
        self._buffers: list[list[torch.Tensor]] = [
            [each.expand(count, -1, -1, -1).clone() for each in (layer.keys, layer.values)]
            for layer in lone.layers
        ]
        self._count = count
        self._rows = torch.arange(count)[:, None]  # of the next pass, each [passing, 1]
        self._slots = self._rows  # where its tokens go, [passing, width]
        self._length = 0  # of the longest row, its tokens included

    def aim(self, rows: torch.Tensor, slots: torch.Tensor) -> None:
        """Says where the next pass writes: its `rows` [passing], ascending, and `slots` [passing, width]."""
        self._rows, self._slots, self._length = rows[:, None], slots, int(slots.max()) + 1

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Models ask for it to number positions, which are given."""
        return self._length - self._slots.shape[1]

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        """Writes [passing, kv_heads, width, head_dim] and returns all of these rows up to the longest."""
        if layer_idx == len(self._buffers):  # the lone model had read nothing
            self._buffers.append([self._empty(new) for new in (keys, values)])
        return tuple(self._write(layer_idx, which, new) for which, new in enumerate((keys, values)))

    def _empty(self, new: torch.Tensor) -> torch.Tensor:
        return new.new_empty(self._count, new.shape[1], 0, new.shape[3])

    def _write(self, layer: int, which: int, new: torch.Tensor) -> torch.Tensor:
        buffer = self._buffers[layer][which]
        if (missing := self._length - buffer.shape[2]) > 0:
            grown = torch.nn.functional.pad(buffer, (0, 0, 0, max(missing, buffer.shape[2])))
            buffer = self._buffers[layer][which] = grown
        buffer[self._rows, :, self._slots] = new.transpose(1, 2)
        filled = buffer[:, :, : self._length]
        return filled if len(self._rows) == len(buffer) else filled[self._rows[:, 0]]


class BatchRow(CachedModel):
    """One sequence of a batch."""

    def __init__(self, batch: Batch, index: int, tokens: Sequence[int]) -> None:
        self.model = batch.model
        self.tokens = list(tokens)
        self.batch = batch
        self.index = index

    def forward(self, ids: Sequence[int], keep: int = 0) -> torch.Tensor:
        return self.batch.forward([self], [ids], keep)[0]

    def together(
        self, models: Sequence[CachedModel], feeds: Sequence[Sequence[int]], keep: int = 0
    ) -> list[torch.Tensor]:
        rows = [model for model in models if isinstance(model, BatchRow)]
        return self.batch.forward(rows, feeds, keep)

    def crop(self, length: int) -> None:
        del self.tokens[length:]


class Batch:
    """Rows of one model that share its forward passes. Each starts with what the lone `model` has read."""

    def __init__(self, model: CachedModel, count: int) -> None:
        self.model = model.model
        self.rows = [BatchRow(self, index, model.tokens) for index in range(count)]
        self._cache = RaggedCache(model.cache, count)

    @torch.inference_mode()
    def forward(
        self, rows: Sequence[BatchRow], feeds: Sequence[Sequence[int]], keep: int = 0
    ) -> list[torch.Tensor]:
        """For each of these rows the logits [keep or len(ids), vocab] behind its `ids`."""
        width, device = max(map(len, feeds)), self.model.device
        starts = torch.tensor([len(row.tokens) for row in rows], device=device)[:, None]  # [rows, 1]
        lengths = torch.tensor([len(ids) for ids in feeds], device=device)[:, None]
        steps = torch.arange(width, device=device)[None]  # [1, width]
        slots = starts + steps
        self._cache.aim(torch.tensor([row.index for row in rows], device=device), slots)
        output = self.model(
            input_ids=torch.tensor([[*ids, *[0] * (width - len(ids))] for ids in feeds], device=device),
            # Padding repeats the last position: those behind it may be more than the model has.
            position_ids=starts + torch.minimum(steps, lengths - 1),
            attention_mask=self._masks(slots),
            cache=self._cache,
            use_cache=True,
        )
        for row, ids in zip(rows, feeds, strict=True):
            row.tokens.extend(ids)
        return [widened(logits[: len(ids)][-keep:]) for logits, ids in zip(output.logits, feeds, strict=True)]

    def _masks(self, slots: torch.Tensor) -> Any:
        """What to add to the attention scores [rows, 1, width, length]; by kind of layer where there are several."""
        config = self.model.config.get_text_config()
        distance = slots[:, None, :, None] - torch.arange(int(slots.max()) + 1, device=slots.device)
        seen = distance >= 0
        window = getattr(config, "sliding_window", None)
        near = seen if window is None else seen & (distance < window)
        kinds = getattr(config, "layer_types", None)
        if kinds is None:
            return self._mask(near)
        return {kind: self._mask(near if kind == "sliding_attention" else seen) for kind in set(kinds)}

    def _mask(self, seen: torch.Tensor) -> torch.Tensor:
        dtype = self.model.dtype
        return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(
            ~seen, torch.finfo(dtype).min
        )


def can_batch(model: CachedModel) -> bool:
    """Whether rows of a batch get the logits that each gets alone; tried out once for every model."""
    if model.batches is None:
        model.batches = _is_masked_here(model) and _agrees(model.fork())
    return model.batches


def _is_masked_here(model: CachedModel) -> bool:
    """Whether `Batch` knows what every layer sees: other limits (chunks, GPT-Neo's) may lie beyond the trial."""
    config = model.model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None) or ()
    return {"full_attention", "sliding_attention"}.issuperset(kinds)


def _agrees(probe: CachedModel) -> bool:
    """Reads two texts of different lengths together, with a rollback, and each by itself."""
    texts = [[(7919 * i) % probe.vocabulary_size for i in range(count)] for count in (13, 7)]
    probe.crop(0)
    probe.forward(texts[0][:5])
    try:
        long, short = rows = Batch(probe, 2).rows
        short.crop(2)
        rows[0].together(rows, [[1, 2], [3, 4, 5]])
        long.crop(5)
        short.crop(2)
        short.forward(texts[1][2:4])
        found = rows[0].together(rows, [texts[0][5:], texts[1][4:]])
    except (RuntimeError, TypeError, ValueError, KeyError, IndexError):
        return False  # a model that cannot take masks or positions of our own
    return all(_close(probe, text, logits) for text, logits in zip(texts, found, strict=True))


def _close(probe: CachedModel, text: Sequence[int], logits: torch.Tensor) -> bool:
    probe.crop(0)
    expected = probe.forward(text)[-len(logits) :]
    return same_up_to_rounding(logits, expected, probe.model.dtype)


def draft_together(drafters: Sequence[tuple[CachedModel | None, Drafting]], stop: Event) -> list[Draft]:
    """Finishes the drafts of several sequences, whose models read together; empty ones once `stop` is set."""
    drafts = [Draft()] * len(drafters)
    asking: dict[int, Sequence[int]] = {}  # place -> what its model shall read
    for place, (_, drafting) in enumerate(drafters):
        _advance(drafting, None, place, drafts, asking)
    while asking and not stop.is_set():
        places, feeds = list(asking), list(asking.values())
        models = [model for place in places if (model := drafters[place][0]) is not None]
        asking.clear()
        for place, logits in zip(places, forward_together(models, feeds, keep=1), strict=True):
            _advance(drafters[place][1], logits[-1], place, drafts, asking)
    return drafts


def _advance(
    drafting: Drafting,
    logits: torch.Tensor | None,
    place: int,
    drafts: list[Draft],
    asking: dict[int, Sequence[int]],
) -> None:
    """Takes a draft one step on: to what it asks for next, or to its end."""
    try:
        asking[place] = next(drafting) if logits is None else drafting.send(logits)
    except StopIteration as done:
        drafts[place] = done.value
