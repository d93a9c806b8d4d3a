"""Models with a running state, such as Mamba, RWKV and their hybrids: they write alone, and never take back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from app.engine.cached_model import CachedModel, widened
from app.errors import UserFacingError


class StatefulModel(CachedModel):
    """A model whose state cannot be cropped: what is to be forgotten in part is forgotten as a whole.

    Behind such a crop the sequence must be read again from its start, as `keep_prefix` sees to.
    """

    can_roll_back = False

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model)
        self._is_lost = False
        self._forget()

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], keep: int = 0) -> torch.Tensor:
        """As CachedModel's. Raises UserFacingError behind a rollback, which a drafter asks for."""
        if self._is_lost:
            raise UserFacingError(
                "This model cannot take rejected tokens back.",
                "It keeps a running state instead of one entry for each token.",
                "Switch drafting off.",
            )
        try:
            rows = [self._step([each]) for each in ids] if self.tokens else [self._step(ids)]
        except BaseException:
            self.crop(0)
            raise
        self.tokens.extend(ids)
        return widened(torch.cat(rows)[-keep:])

    def crop(self, length: int) -> None:
        """Forgets everything unless `length` tokens hold all that was read."""
        if length < len(self.tokens):
            self._forget()
            self._is_lost = length > 0

    def keep_prefix(self, tokens: Sequence[int]) -> int:
        """How many tokens need not be read again: all that was read, or none."""
        if self._is_lost or self.tokens != list(tokens[: len(self.tokens)]):
            self.crop(0)
            self._is_lost = False
        return len(self.tokens)

    def _step(self, ids: Sequence[int]) -> torch.Tensor:
        """Logits [len(ids), vocab]. Behind a state only one token at a time: more would start from a fresh one."""
        input_ids = torch.tensor([ids], device=self.model.device)
        output = self.model(input_ids=input_ids, use_cache=True, **{self._keyword: self.cache})
        self.cache = output[self._keyword]
        logits: torch.Tensor = output.logits[0]
        return logits

    def _forget(self) -> None:
        self.tokens.clear()
        self._keyword = "state" if self.model.config.model_type == "rwkv" else "cache"
        without_cache = self.model.config.model_type in ("rwkv", "xlstm")  # they make their own
        fresh: Any = None if without_cache else DynamicCache(config=self.model.config)
        self.cache = fresh
