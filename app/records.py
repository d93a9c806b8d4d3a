"""What travels between the engine, the window and the terminal: frozen, free of torch and Qt."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Drafter = Literal["assistant", "lookup", "early-exit", "hybrid", "none"]
Source = Literal["assistant", "lookup", "early-exit"]
Schedule = Literal["constant", "heuristic", "confidence", "automatic"]
Rule = Literal["auto", "match", "sample-match", "speculative"]
Weights = Literal["auto", "float32", "bfloat16", "float16", "float64", "int8", "nf4", "fp4"]
Compute = Literal["auto", "float32", "bfloat16", "float16"]
Kind = Literal["accepted", "rejected", "recovered", "bonus", "plain"]
FinishReason = Literal["eos", "stop-string", "length", "context", "stopped"]
MAX_VARIANTS = 8
STARTER = "starter"
STARTER_NAMES = ("SmolLM2-135M-Instruct", "Starter assistant")
"""What the starter is called as target, and as assistant."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model to load and how.

    `source` is `starter`, the folder of a checkpoint, the path of a GGUF file, or a repository `owner/name`
    of the Hub that is on disk; `file` names the GGUF file to take from a repository. `weights` is a number
    format, or a way to quantise: int8, and the two of 4 bits, nf4 and fp4, with their own scales quantised
    once more where `double_quantisation` is set; `compute` is the number format that quantised layers
    compute in. `device` is auto, cpu, mps, cuda or cuda:INDEX, or offload, which spreads the layers over all
    memory and what is left over the disk. The two consents hold for this revision of this repository alone.
    """

    source: str = "starter"
    revision: str = "main"
    file: str = ""
    weights: Weights = "auto"
    double_quantisation: bool = True
    compute: Compute = "auto"
    device: str = "auto"
    own_code: bool = False
    pickle: bool = False

    @property
    def key(self) -> str:
        """What tells the model from others, whichever its revision and however it is held."""
        return f"{self.source}:{self.file}" if self.file else self.source


@dataclass(frozen=True, slots=True)
class PairSpec:
    """Which two models to load; the assistant may be absent."""

    target: ModelSpec = ModelSpec()
    assistant: ModelSpec | None = ModelSpec()
    context: int = 4096  # tokens that memory must suffice for; models made for fewer need less

    @classmethod
    def of(cls, target: str, assistant: str | None, weights: Weights = "auto") -> PairSpec:
        """Two sources in the same number format."""
        helper = None if assistant is None else ModelSpec(assistant, weights=weights)
        return cls(ModelSpec(target, weights=weights), helper)


@dataclass(frozen=True, slots=True)
class PairSummary:
    """A loaded pair in words, for the badge and the reports; `notes` warn of what may disappoint.

    `assistant_off` says why an assistant that was asked for is absent. `taken` are the bytes of weights that
    both really hold on each device.
    """

    target: str
    assistant: str | None
    device: str  # where the target is; the assistant's follows below
    weights: str  # how the target's are held
    context_length: int
    decoder: Literal["fast", "transformers"] = "transformers"
    notes: tuple[str, ...] = ()
    assistant_device: str | None = None
    assistant_weights: str | None = None
    assistant_off: str = ""
    taken: Mapping[str, int] = field(default_factory=dict)


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
    """How the target chooses. Temperature 0 is greedy: filters then change nothing, penalties and bias still do.

    Off are: top_k 0, top_p 1, min_p 0, typical_p 1, repetition_penalty 1, presence_penalty 0,
    frequency_penalty 0. The repetition penalty looks at prompt and reply, the other two at the reply alone.
    `logit_bias` holds (token id, what is added to its logit).
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int = 0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """Who drafts, how many tokens a round, and by which rule a candidate stands.

    `draft_length` is the number itself under the constant schedule, where the heuristic begins, and the most
    under confidence; the automatic schedule chooses for itself. 0 is plain generation under the other three.
    `confidence_threshold` belongs to the confidence schedule: a draft ends behind the first candidate that
    its drafter thought less likely than this; 0 is off. `exit_layer` is the number of the target's layers
    that draft under early exit; 0 takes a third of them.
    """

    drafter: Drafter = "assistant"
    draft_length: int = 5
    schedule: Schedule = "constant"
    confidence_threshold: float = 0.4
    rule: Rule = "auto"
    exit_layer: int = 0

    @property
    def drafts(self) -> bool:
        """Whether anything is drafted at all."""
        return self.drafter != "none" and (self.draft_length > 0 or self.schedule == "automatic")


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """Everything a reply depends on, besides the pair itself.

    Of `num_variants` replies to the same messages, variant i is written as by a request of its own with the
    seed raised by i. A reply ends where its text contains one of `stop_strings`, which is cut off.
    """

    messages: tuple[Message, ...]
    sampling: SamplingSettings = SamplingSettings()
    draft: DraftSettings = DraftSettings()
    max_new_tokens: int = 512
    stop_strings: tuple[str, ...] = ()
    num_variants: int = 1
    alternatives: bool = True  # whether rounds record what else both models would have written

    def variants(self) -> tuple[GenerationRequest, ...]:
        """One request for each reply."""
        return tuple(
            dataclasses.replace(
                self, num_variants=1, sampling=dataclasses.replace(self.sampling, seed=self.sampling.seed + i)
            )
            for i in range(self.num_variants)
        )


@dataclass(frozen=True, slots=True)
class Token:
    """One token and what both models thought of it.

    Probabilities are those the rule compared: after temperature and filters when sampling, of the bare
    logits when greedy (penalties and bias included in both). `target_probability` is None for a candidate
    behind the first rejected one (never judged); `assistant_probability` is None where no model drafted at
    this position. `source` tells who drafted a candidate; None for the target's own token.
    `acceptance_probability` is the chance a judged candidate had of standing, None for all other tokens.
    """

    id: int
    text: str
    target_probability: float | None = None
    assistant_probability: float | None = None
    source: Source | None = None
    acceptance_probability: float | None = None


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that could have been chosen, and its probability."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Both models' likeliest tokens at one position, best first, and the entropy of their choice in nats.

    The assistant's are empty, and its entropy None, where no model drafted.
    """

    target: tuple[Alternative, ...]
    assistant: tuple[Alternative, ...]
    target_entropy: float
    assistant_entropy: float | None


# No slots: cached_property keeps its value in the instance dictionary.
@dataclass(frozen=True)
class Round:
    """One verification round: a draft, one target forward pass, the accepted prefix and the token after it.

    `pieces` holds the text of each emitted token; it is empty while a character is incomplete, and the
    token that completes it carries the whole character; likewise while a stop string may have begun. Joined
    over all rounds they are the reply. Where several replies are written in one batch, the seconds of a
    shared forward pass are divided among them, so that they add up.
    """

    index: int  # of this round in its reply, from 0
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
    variant: int = 0  # which of the request's replies it belongs to
    alternatives: tuple[Alternatives, ...] = ()  # one for each emitted token; empty where not recorded

    @cached_property
    def emitted(self) -> tuple[Token, ...]:
        """The tokens this round added to the reply."""
        accepted = self.candidates[: self.num_accepted]
        return accepted if self.next_token is None else (*accepted, self.next_token)

    @property
    def source(self) -> Source | None:
        """Who drafted; None in a plain round."""
        return self.candidates[0].source if self.candidates else None

    @property
    def rejected(self) -> tuple[Token, ...]:
        """The thrown-away candidates: the refused one first, then those that were never judged."""
        return self.candidates[self.num_accepted :]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Trace:
    """A finished request with all its rounds: enough to colour, replay, compare and export it."""

    request: GenerationRequest
    rule: Rule
    rounds: tuple[Round, ...]  # of all variants, as they ended

    @cached_property
    def variants(self) -> tuple[tuple[Round, ...], ...]:
        """The rounds of each reply by itself."""
        return tuple(
            tuple(each for each in self.rounds if each.variant == variant)
            for variant in range(self.request.num_variants)
        )

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The text of each reply."""
        return tuple("".join(each.text for each in rounds) for rounds in self.variants)

    @property
    def text(self) -> str:
        return self.texts[0]

    @property
    def finish_reasons(self) -> tuple[FinishReason, ...]:
        """Why each reply ended: its last round tells, and where it does not, somebody stopped it."""
        return tuple((rounds[-1].finish_reason if rounds else None) or "stopped" for rounds in self.variants)

    @property
    def finish_reason(self) -> FinishReason:
        """Why the request ended: "stopped" when any reply was, else as the first one did."""
        return "stopped" if "stopped" in self.finish_reasons else self.finish_reasons[0]


def as_dict(record: Any) -> dict[str, Any]:
    """A record as plain dictionaries, lists and numbers, ready for JSON."""
    return dataclasses.asdict(record)
