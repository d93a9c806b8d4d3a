"""Whatever proposes candidate tokens. One file each; they share the types below."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from app.records import Source

if TYPE_CHECKING:
    import torch

    from app.engine.cached_model import CachedModel


@dataclass(frozen=True, slots=True)
class Draft:
    """The candidates of one round, all of one source (None when there are none).

    `distributions` [len(ids), vocab] are the drafter's own predictions at each candidate, None when it has
    none (a lookup). `drawn` tells whether the candidates were drawn from them at random.
    """

    ids: tuple[int, ...] = ()
    source: Source | None = None
    distributions: torch.Tensor | None = None
    drawn: bool = False


Limit = Callable[[Source], int]
"""How many candidates a source may propose in this round."""

Drafting = Generator["Sequence[int]", "torch.Tensor", Draft]
"""A draft in the making. It yields what its model shall read next, is sent the logits [vocab] behind that, and
returns the draft: so that the drafts of several sequences can share their forward passes."""


class Drafter(Protocol):
    """Proposes what may come next in one sequence."""

    @property
    def source(self) -> Source:
        """What its candidates usually come from: whose draft length counts while there are none."""
        ...

    @property
    def model(self) -> CachedModel | None:
        """What it drafts with; None when it needs none."""
        ...

    def to_read(self, prompt: Sequence[int]) -> Sequence[int]:
        """What `model` should have read before the first round, of a prompt that lacks its last token."""
        ...

    def draft(self, sequence: Sequence[int], limit: Limit) -> Drafting:
        """Proposes candidates behind `sequence`, `limit` of them or fewer."""
        ...

    def crop(self, length: int) -> None:
        """Forgets what it read beyond the first `length` tokens of the sequence."""
        ...
