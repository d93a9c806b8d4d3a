"""What travels between the engine, the window and the terminal: frozen, free of torch and Qt."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

Drafter = Literal["assistant", "lookup", "none"]
Schedule = Literal["constant", "heuristic"]
Rule = Literal["auto", "match", "sample-match", "speculative"]
Dtype = Literal["auto", "float32", "bfloat16", "float64"]
Kind = Literal["accepted", "rejected", "recovered", "bonus", "plain"]
FinishReason = Literal["eos", "length", "context", "stopped"]


@dataclass(frozen=True, slots=True)
class PairSpec:
    """Which two models to load: `starter`, or the folder of a local checkpoint; `assistant` may be absent."""

    target: str = "starter"
    assistant: str | None = "starter"
    dtype: Dtype = "auto"


@dataclass(frozen=True, slots=True)
class PairSummary:
    """A loaded pair in words, for the badge and the reports."""

    target: str
    assistant: str | None
    device: str
    dtype: str
    context_length: int
    decoder: Literal["fast", "transformers"] = "transformers"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long job has come: what it is doing, and the share done (0 to 1, None while unknown)."""

    message: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How the target chooses. Temperature 0 is greedy; top_k 0 and top_p 1 are off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """Who drafts, how many tokens a round, and by which rule a candidate stands."""

    drafter: Drafter = "assistant"
    draft_length: int = 5
    schedule: Schedule = "constant"
    rule: Rule = "auto"


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """Everything one reply depends on, besides the pair itself."""

    messages: tuple[Message, ...]
    sampling: SamplingSettings = SamplingSettings()
    draft: DraftSettings = DraftSettings()
    max_new_tokens: int = 512


@dataclass(frozen=True, slots=True)
class Token:
    """One token and what both models thought of it.

    Probabilities are those the rule compared: after temperature and filters when sampling, of the bare
    logits when greedy. `target_probability` is None for a candidate behind the first rejected one (never
    judged); `assistant_probability` is None where no model drafted at this position.
    """

    id: int
    text: str
    target_probability: float | None = None
    assistant_probability: float | None = None


# No slots: cached_property keeps its value in the instance dictionary.
@dataclass(frozen=True)
class Round:
    """One verification round: a draft, one target forward pass, the accepted prefix and the token after it.

    `pieces` holds the text of each emitted token; it is empty while a character is incomplete, and the
    token that completes it carries the whole character. Joined over all rounds they are the reply.
    """

    index: int
    position: int  # of the first emitted token in the reply, from 0
    draft_length: int  # in force when the round began; the draft itself may be shorter
    candidates: tuple[Token, ...]
    num_judged: int
    num_accepted: int
    next_token: Token | None  # None when the reply ended inside the accepted candidates
    next_kind: Literal["recovered", "bonus", "plain"] | None
    pieces: tuple[str, ...]
    draft_seconds: float
    verify_seconds: float
    seconds: float  # the whole round, this bookkeeping included
    prefill_seconds: float = 0.0  # spent on the prompt before the first round; 0 in all others
    finish_reason: FinishReason | None = None  # set in the last round

    @cached_property
    def emitted(self) -> tuple[Token, ...]:
        """The tokens this round added to the reply."""
        accepted = self.candidates[: self.num_accepted]
        return accepted if self.next_token is None else (*accepted, self.next_token)

    @property
    def rejected(self) -> tuple[Token, ...]:
        """The thrown-away candidates: the refused one first, then those that were never judged."""
        return self.candidates[self.num_accepted :]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Trace:
    """A finished reply with all its rounds: enough to colour, replay, compare and export it."""

    request: GenerationRequest
    rule: Rule
    rounds: tuple[Round, ...]

    @property
    def finish_reason(self) -> FinishReason:
        """Why the reply ended: the last round tells, and where it does not, somebody stopped it."""
        return (self.rounds[-1].finish_reason if self.rounds else None) or "stopped"

    @cached_property
    def text(self) -> str:
        return "".join(each.text for each in self.rounds)


def as_dict(record: Any) -> dict[str, Any]:
    """A record as plain dictionaries, lists and numbers, ready for JSON."""
    return dataclasses.asdict(record)
