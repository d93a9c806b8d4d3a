"""Whatever proposes candidate tokens. One file each; they share the two types below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Draft:
    """The candidates of one round.

    `distributions` [len(ids), vocab] are the drafter's own predictions at each candidate, None when it has
    none (a lookup). `drawn` tells whether the candidates were drawn from them at random.
    """

    ids: tuple[int, ...] = ()
    distributions: torch.Tensor | None = None
    drawn: bool = False


class Drafter(Protocol):
    """Proposes what may come next."""

    def draft(self, sequence: Sequence[int], count: int, stop: Event) -> Draft:
        """At most `count` candidates behind `sequence`; fewer when it knows no more or `stop` is set."""
        ...

    def crop(self, length: int) -> None:
        """Forgets what it read beyond the first `length` tokens of the sequence."""
        ...
