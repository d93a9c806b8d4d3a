"""One reply in the making: everything the loop needs for one sequence."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.cached_model import CachedModel
from app.engine.draft_length import DraftLength
from app.engine.drafters import Draft, Drafter, Drafting
from app.engine.ending import Ending
from app.engine.recording import Recorder
from app.engine.rules import Verify
from app.engine.sampling import Noise, Sampler
from app.records import FinishReason, Source


@dataclass
class Reply:
    sequence: list[int]  # the prompt and what was written so far
    target: CachedModel
    drafter: Drafter
    length: DraftLength
    sampler: Sampler
    noise: Noise
    verify: Verify
    ending: Ending
    recorder: Recorder
    finish_reason: FinishReason | None = None
    prefill_seconds: float = 0.0  # not yet told by a round

    def draft(self) -> Drafting:
        """Candidates for the next round: no more than are in force, and one fewer than there is room for."""
        return self.drafter.draft(self.sequence, self._limit)

    def in_force(self, draft: Draft) -> int:
        """The draft length in force for this draft; where nothing was drafted, that of the drafter's model."""
        return self.length.current(draft.source or self.drafter.source)

    def _limit(self, source: Source) -> int:
        return min(self.length.current(source), self.ending.remaining - 1)
