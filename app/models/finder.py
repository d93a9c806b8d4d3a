"""Which assistant for a target, and which pair for this machine: from a list of known models and what is on disk.

Free of torch, so that it answers at once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from app.models.measured import Measurements
from app.models.speed import Measured, Prediction, predict, promise
from app.records import Weights
from app.resources import resource
from app.words import count, size

Kind = Literal["same", "padded", "some-ids-differ", "unknown", "other-tokenizer", "refused"]

ORDER: tuple[Kind, ...] = ("same", "padded", "some-ids-differ", "unknown", "other-tokenizer", "refused")
REASONS: Mapping[Kind, str] = {
    "same": "the same tokenizer",
    "padded": "the same tokenizer, the vocabulary padded differently, which does no harm",
    "some-ids-differ": "nearly the same tokenizer",
    "other-tokenizer": "another tokenizer: every draft is translated, which is slower",
    "unknown": "not compared yet",
    "refused": "they cannot work together",
}
BITS: Mapping[Weights, float] = {
    "float32": 32,
    "float64": 64,
    "int8": 8,
    "nf4": 4.5,
    "fp4": 4.5,
}  # 16 in others
OVERHEAD = 300_000_000  # bytes of work beside weights and caches, and of what the machine keeps for itself
PAYS = 1.05  # times plain speed, below which an assistant is not worth its memory
COMFORTABLE = 0.7  # of what is free
MOST_ON_CPU = 8e9  # bytes of weights; a processor that reads 30 GB/s then still writes 4 tokens a second


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of the list; its cache holds `layers` x `kv_heads` x `head_dim` keys and values a token."""

    repo: str
    family: str
    parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    context: int
    licence: str
    gated: bool = False
    chat: bool = True
    pickle: bool = False  # its weights come as pickles only
    shape: Literal["decoder", "encoder-decoder"] = "decoder"

    def weights(self, weights: Weights) -> int:
        """Bytes."""
        return int(self.parameters * BITS.get(weights, 16) / 8)

    def cache(self, context: int) -> int:
        """Bytes of keys and values, 16 bits each."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim * min(context, self.context)


@dataclass(frozen=True, slots=True)
class KnownPair:
    target: str
    assistant: str
    verdict: Kind


@dataclass(frozen=True, slots=True)
class Known:
    models: Mapping[str, KnownModel]
    pairs: tuple[KnownPair, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible assistant. What is None is not known before it has been looked at."""

    repo: str
    verdict: Kind
    reason: str
    parameters: int | None = None
    licence: str | None = None
    gated: bool = False
    present: bool = False
    bytes: int | None = None  # of the pair in memory
    fits: bool | None = None
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What a closer look at a target and an assistant has found; what is None it could not tell."""

    verdict: Kind
    reason: str
    parameters: int | None = None
    cost: float | None = None  # of an assistant's pass over a target's, by the number of weights
    bytes: int | None = None  # of the pair in memory
    fits: bool | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A pair for this machine, and why."""

    target: KnownModel
    assistant: KnownModel
    weights: Weights
    bytes: int  # in memory
    download: int  # bytes
    reason: str


@lru_cache
def known() -> Known:
    """The list that ships with the program."""
    read: dict[str, Any] = json.loads(resource("known_pairs.json").read_text(encoding="utf-8"))
    models = {each["repo"]: KnownModel(**each) for each in read["models"]}
    return Known(models, tuple(KnownPair(**each) for each in read["pairs"]))


def pair_bytes(target: KnownModel, assistant: KnownModel, weights: Weights, context: int) -> int:
    """What both take together, in bytes."""
    return OVERHEAD + sum(each.weights(weights) + each.cache(context) for each in (target, assistant))


def candidates(
    target: str,
    free: int,
    here: Collection[str],
    measurements: Measurements,
    judged: Mapping[str, Judged] = MappingProxyType({}),
    weights: Weights = "auto",
    context: int = 4096,
) -> list[Candidate]:
    """Known assistants of `target` and what is `here`, the best first.

    `free` is in bytes; `judged` holds what a closer look has found, which counts more than the list.
    """
    found = {each.repo: each for each in _known(target, free, here, measurements, weights, context)}
    for source in here:
        known_one = found.get(source) or Candidate(
            source, "unknown", f"On this disk; {REASONS['unknown']}.", present=True
        )
        found[source] = _looked_at(known_one, judged.get(source), measurements.of(target, source))
    return sorted(found.values(), key=_rank)


def _looked_at(each: Candidate, judged: Judged | None, measured: Measured | None) -> Candidate:
    if judged is None:
        return each
    return replace(
        each,
        verdict=judged.verdict,
        reason=judged.reason,
        parameters=judged.parameters or each.parameters,
        bytes=judged.bytes,
        fits=judged.fits,
        prediction=promise(judged.cost, judged.verdict, measured),
    )


def _known(
    target: str, free: int, here: Collection[str], measurements: Measurements, weights: Weights, context: int
) -> Iterator[Candidate]:
    alike = _named_like(target)
    if alike is None:
        return
    ours = known().models[alike]
    for pair in known().pairs:
        if pair.target != alike:
            continue
        model = known().models[pair.assistant]
        taken = pair_bytes(ours, model, weights, context)
        yield Candidate(
            model.repo,
            pair.verdict,
            _reason(pair, target),
            model.parameters,
            model.licence,
            model.gated,
            model.repo in here,
            taken,
            taken <= free,
            promise(model.parameters / ours.parameters, pair.verdict, measurements.of(target, model.repo)),
        )


def _reason(pair: KnownPair, target: str) -> str:
    words = REASONS[pair.verdict]
    if pair.target == target:
        return f"Known pair: {words}."
    return f"Known for {pair.target}, whose name this model bears: {words}."


def _named_like(target: str) -> str | None:
    """The known target of this name, or the one whose name a derived model bears; the longest name counts."""
    targets = {each.target for each in known().pairs}
    if target in targets:
        return target
    name = target.rpartition("/")[2].lower()
    alike = [each for each in targets if each.rpartition("/")[2].lower() in name]
    return max(alike, key=len, default=None)


def _rank(each: Candidate) -> tuple[bool, bool, int, float, bool, bool, str]:
    speed = each.prediction.low + each.prediction.high if each.prediction else 0.0
    useless = each.verdict == "refused" or (each.prediction is not None and each.prediction.high < PAYS)
    order = ORDER.index(each.verdict)
    return each.fits is False, useless, order, -speed, each.gated, not each.present, each.repo


def recommend(free: Mapping[str, int], context: int = 4096) -> list[Recommendation]:
    """Up to three pairs for a machine with so many free bytes: good, quick, and a larger one in 4 bits."""
    device = max(free, key=lambda each: (each != "cpu", free[each]))
    found: list[tuple[tuple[KnownModel, KnownModel] | None, Weights, str]] = []
    best = _largest(free[device], "auto", context, device)
    packed = _largest(free[device], "nf4", context, device)
    if best is not None:
        found.append((best, "auto", "The largest that fits well here"))
        quick = _largest(free[device], "auto", context, device, most=best[0].parameters // 2)
        found.append((quick, "auto", "Smaller and quicker"))
    if packed is not None and (best is None or packed[0].parameters > 1.5 * best[0].parameters):
        found.append((packed, "nf4", "Larger, its weights in 4 bits" if best else "Fits in 4 bits"))
    return [
        _recommend(*pair, weights, words, free[device], context)
        for pair, weights, words in found
        if pair is not None
    ]


def _largest(
    free: int, weights: Weights, context: int, device: str, most: int | None = None
) -> tuple[KnownModel, KnownModel] | None:
    """The largest open chat model that fits comfortably, with the assistant that promises most."""
    fitting = []
    for pair in known().pairs:
        target, assistant = (known().models[each] for each in (pair.target, pair.assistant))
        easy = all(
            each.chat and not each.gated and not each.pickle and each.licence != "other"
            for each in (target, assistant)
        )
        quick = device != "cpu" or target.weights(weights) <= MOST_ON_CPU
        small = most is None or target.parameters <= most
        if easy and quick and small and pair_bytes(target, assistant, weights, context) <= COMFORTABLE * free:
            fitting.append((target, assistant))
    return max(fitting, key=lambda each: (each[0].parameters, -each[1].parameters), default=None)


def _recommend(
    target: KnownModel, assistant: KnownModel, weights: Weights, words: str, free: int, context: int
) -> Recommendation:
    taken = pair_bytes(target, assistant, weights, context)
    speed = predict(assistant.parameters / target.parameters)
    reason = (
        f"{words}: takes {size(taken)} of the {size(free)} that are free. {count(target.parameters)} weights, "
        f"assisted by {count(assistant.parameters)}: expect {speed.words}. {target.licence}, no sign-in."
    )
    download = target.weights("auto") + assistant.weights("auto")
    return Recommendation(target, assistant, weights, taken, download, reason)
