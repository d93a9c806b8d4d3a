"""Whether two models can work together, decided from their files before any weights are read, with the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from app.models.speed import speed_up

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Shape = Literal["decoder", "cross-attending decoder", "encoder-decoder"]

STATEFUL_TYPES = {"rwkv", "xlstm"}
STATEFUL_LAYERS = {
    "linear_attention",
    "hybrid",
    "hybrid_sliding",
    "conv",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
}
CLASSIFIERS = ("Classification", "QuestionAnswering", "MultipleChoice", "RewardModel")
MOST_DIFFERING = 0.01  # of the vocabulary; above, the two are different tokenizers
EXAMPLES = 3
MOST_HEADER = 100_000_000  # bytes, the format's own limit
ASSUMED_ACCEPTANCE, ASSUMED_LENGTH = 0.8, 5
PROBES = (
    "The quick brown fox isn't lazy.",
    "def area(w, h):\n\treturn w * h  # 12345\n\n",
    "Zwölf Boxkämpfer, naïve façade: \N{LATIN SMALL LETTER U}\N{COMBINING DIAERESIS}",
    "漢字とかな、한국어。",
    "\N{PARTY POPPER} \N{WAVING BLACK FLAG}\N{ZERO WIDTH JOINER}\N{SKULL AND CROSSBONES}",
    "  two  spaces, a\ttab and an end \n ",
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is known of a model without its weights; `parameters` is None where nobody has counted them."""

    name: str
    config: Mapping[str, Any]  # config.json
    tokenizer: PreTrainedTokenizerBase
    parameters: int | None = None
    own_code: bool = False  # whether the person consents to running the program code that comes with it

    @property
    def needs_own_code(self) -> bool:
        return self.config.get("model_type") not in CONFIG_MAPPING


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether two models can work together: `reason` is a sentence for people, `notes` are warnings."""

    kind: Literal["same", "padded", "some-ids-differ", "other-tokenizer", "refused", "unknown"]
    reason: str
    notes: tuple[str, ...] = ()


def refusal(config: Mapping[str, Any], name: str, own_code: bool = False) -> str | None:
    """Why this model cannot write text here, not even alone; None where it can.

    `own_code` is the person's consent to run the program code that comes with the model.
    """
    kind = config.get("model_type")
    if kind not in CONFIG_MAPPING:
        if "AutoModelForCausalLM" not in config.get("auto_map", {}):
            return f"{name} is of a type that is not known here ({kind})."
        if own_code:
            return None
        return f"{name} needs program code of its own, which runs only with your consent."
    architectures = config.get("architectures") or []
    read = full_config(config)
    if _is_encoder(read, architectures):
        return f"{name} is an encoder (fill-in-the-blank) model; it cannot write text left to right."
    if any(word in each for each in architectures for word in CLASSIFIERS):
        return f"{name} is a classifier; it cannot write text."
    writers = (
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
        if _is_encoder_decoder(read)
        else MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    )
    return None if kind in writers else f"{name} ({kind}) is not a model that writes text."


def shape(config: Mapping[str, Any]) -> Shape:
    """How a model that writes text is built; a cross-attending decoder reads the encoder of another model."""
    read = full_config(config)
    if _is_encoder_decoder(read):
        return "encoder-decoder"
    from_such_a_model = read.model_type in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    crosses = getattr(read, "add_cross_attention", False) or (
        from_such_a_model and getattr(read, "is_decoder", False)
    )
    return "cross-attending decoder" if crosses else "decoder"


def is_stateful(config: Mapping[str, Any]) -> bool:
    """Whether some layer keeps a running state, from which tokens cannot be taken back (P8)."""
    text = full_config(config).get_text_config()
    layers = getattr(text, "layer_types", None) or ()
    return text.model_type in STATEFUL_TYPES or not STATEFUL_LAYERS.isdisjoint(layers)


def judge(target: Checkpoint, assistant: Checkpoint) -> Verdict:
    """Whether `assistant` can draft for `target`, and how. Raises what transformers does on a broken config."""
    reason = (
        refusal(target.config, target.name, target.own_code)
        or refusal(assistant.config, assistant.name, assistant.own_code)
        or _why_stateful(target, assistant)
        or _why_shapes_do_not_fit(target, assistant)
    )
    if reason is not None:
        return Verdict("refused", reason)
    verdict = _compare_tokenizers(target, assistant)
    if verdict.kind == "other-tokenizer" and shape(target.config) == "encoder-decoder":
        return Verdict(
            "refused",
            f"{target.name} and {assistant.name} have different tokenizers, "
            "which an encoder-decoder target does not allow.",
        )
    return Verdict(verdict.kind, verdict.reason, verdict.notes + _warn_of_size(target, assistant))


def count_parameters(folder: Path) -> int | None:
    """How many numbers the safetensors files of a checkpoint hold, by their headers; None without any."""
    return sum(prod(each["shape"]) for each in _tensors(folder).values()) or None


def tensor_bytes(folder: Path) -> dict[str, int]:
    """The size of each tensor in the safetensors files of a checkpoint."""
    ends = {name: each["data_offsets"] for name, each in _tensors(folder).items()}
    return {name: end - start for name, (start, end) in ends.items()}


def estimate_parameters(config: Mapping[str, Any]) -> int | None:
    """Weights of a decoder-only model by the sizes of its matrices; None for other shapes and for experts."""
    read = full_config(config)
    text = read.get_text_config()
    sizes = text.to_dict()
    if shape(config) != "decoder" or is_stateful(config) or any("experts" in each for each in sizes):
        return None
    hidden, heads = text.hidden_size, text.num_attention_heads
    head = getattr(text, "head_dim", None) or hidden // heads
    shared = getattr(text, "num_key_value_heads", None) or heads
    inner = getattr(text, "intermediate_size", None) or getattr(text, "ffn_dim", None) or 4 * hidden
    gated = sizes.get("hidden_act") in ("silu", "swish") or text.model_type.startswith("gemma")
    layer = hidden * (2 * heads * head + 2 * shared * head + (3 if gated else 2) * inner)
    embeddings = text.vocab_size * hidden * (1 if getattr(text, "tie_word_embeddings", True) else 2)
    return int(text.num_hidden_layers * layer + embeddings)


def _tensors(folder: Path) -> dict[str, Any]:
    """Name, shape and place of every tensor: a safetensors file starts with the length of its header."""
    found: dict[str, Any] = {}
    for path in folder.glob("model*.safetensors"):
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, MOST_HEADER)))
        found |= {name: entry for name, entry in header.items() if name != "__metadata__"}
    return found


def full_config(config: Mapping[str, Any]) -> PreTrainedConfig:
    """With the defaults of its type, as config.json names only some values; those of no type for a stranger's."""
    entries = {name: value for name, value in config.items() if name not in ("model_type", "auto_map")}
    kind = config["model_type"]
    read: PreTrainedConfig
    read = AutoConfig.for_model(kind, **entries) if kind in CONFIG_MAPPING else PreTrainedConfig(**entries)
    return read


def _is_encoder(config: PreTrainedConfig, architectures: list[str]) -> bool:
    """BERT's kin have a left-to-right class too, but only with `is_decoder` do they attend that way."""
    if any(each.endswith("EncoderModel") for each in architectures):
        return True
    one_way = getattr(config, "is_decoder", False) or getattr(config, "causal", False)
    fills_blanks = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return fills_blanks and not one_way and not _is_encoder_decoder(config)


def _is_encoder_decoder(config: PreTrainedConfig) -> bool:
    return bool(getattr(config, "is_encoder_decoder", False))


def _why_stateful(target: Checkpoint, assistant: Checkpoint) -> str | None:
    for each in (target, assistant):
        if is_stateful(each.config):
            return (
                f"{each.name} keeps a running state from which rejected tokens cannot be taken back; "
                "it can only write alone, without assistance."
            )
    return None


def _why_shapes_do_not_fit(target: Checkpoint, assistant: Checkpoint) -> str | None:
    """P7. An encoder-decoder target's source text is read by its encoder: the assistant must see it too."""
    theirs, ours = shape(target.config), shape(assistant.config)
    if theirs != "encoder-decoder":
        if ours == "encoder-decoder":
            return (
                f"{assistant.name} is an encoder-decoder model, which keeps source and reply apart; "
                f"{target.name} writes both as one text, so it cannot be assisted by it."
            )
        if ours == "cross-attending decoder":
            return f"{assistant.name} reads another model's encoder, and {target.name} has none."
        return None
    if ours == "decoder":
        return (
            f"{assistant.name} is a decoder-only model: it does not see the source text "
            f"that the encoder of {target.name} reads."
        )
    if ours == "cross-attending decoder":
        return _why_widths_do_not_fit(target, assistant)
    return None


def _why_widths_do_not_fit(target: Checkpoint, assistant: Checkpoint) -> str | None:
    encoder = full_config(target.config).get_text_config(encoder=True).hidden_size
    read = full_config(assistant.config)
    expected = getattr(read, "cross_attention_hidden_size", None) or read.hidden_size
    if encoder == expected:
        return None
    return f"{assistant.name} reads encoders {expected} numbers wide, and that of {target.name} is {encoder} wide."


def _compare_tokenizers(target: Checkpoint, assistant: Checkpoint) -> Verdict:
    """By the token behind each id: sizes alone tell nothing, padding is harmless and a swapped id is not."""
    theirs, ours = _by_id(target.tokenizer), _by_id(assistant.tokenizer)
    differing = sorted(each for each in theirs.keys() | ours.keys() if theirs.get(each) != ours.get(each))
    names = f"{target.name} and {assistant.name}"
    if len(differing) > MOST_DIFFERING * len(theirs):
        return Verdict(
            "other-tokenizer",
            f"{names} have different tokenizers ({len(differing):,} ids differ): universal assisted "
            "generation is used, which translates every draft and is slower.",
        )
    notes = _warn_of_endings(target, assistant) + _warn_of_encodings(target, assistant)
    if differing:
        return Verdict(
            "some-ids-differ",
            f"{names} have nearly the same tokenizer: {_some(differing, theirs, ours)}.",
            (
                f"{_some(differing, theirs, ours)} between {names}; the text stays right, "
                "drafts with these tokens are rejected more often.",
                *notes,
            ),
        )
    sizes = [full_config(each.config).get_text_config().vocab_size for each in (target, assistant)]
    if sizes[0] != sizes[1]:
        reason = f"{names}: same tokenizer, padded vocabulary differs ({sizes[0]:,} and {sizes[1]:,}): fine."
        return Verdict("padded", reason, notes)
    return Verdict("same", f"{names} have the same tokenizer.", notes)


def _by_id(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    return {number: token for token, number in tokenizer.get_vocab().items()}


def _some(differing: list[int], theirs: dict[int, str], ours: dict[int, str]) -> str:
    """How many ids differ, and the first of them."""
    examples = [f"{each} is {theirs.get(each)!r} and {ours.get(each)!r}" for each in differing[:EXAMPLES]]
    counted = "1 token id differs" if len(differing) == 1 else f"{len(differing):,} token ids differ"
    return f"{counted} of {len(theirs):,} ({', '.join(examples)})"


def _warn_of_endings(target: Checkpoint, assistant: Checkpoint) -> tuple[str, ...]:
    theirs, ours = target.tokenizer.eos_token, assistant.tokenizer.eos_token
    if theirs == ours:
        return ()
    return (
        f"{target.name} ends a reply with {theirs!r} and {assistant.name} with {ours!r}; the target's counts.",
    )


def _warn_of_encodings(target: Checkpoint, assistant: Checkpoint) -> tuple[str, ...]:
    """The assistant reads the target's ids, so another way to split a text makes worse drafts, not worse text."""
    differing = sum(
        target.tokenizer.encode(each, add_special_tokens=False)
        != assistant.tokenizer.encode(each, add_special_tokens=False)
        for each in PROBES
    )
    if not differing:
        return ()
    return (
        f"{target.name} and {assistant.name} split {differing} of {len(PROBES)} sample texts differently; "
        "the text stays right, fewer drafts may be accepted.",
    )


def _warn_of_size(target: Checkpoint, assistant: Checkpoint) -> tuple[str, ...]:
    """P9. From equal size on, even drafts that are always accepted cost more than they save."""
    theirs = target.parameters or estimate_parameters(target.config)
    ours = assistant.parameters or estimate_parameters(assistant.config)
    if theirs is None or ours is None or ours <= theirs:
        return ()
    speed = speed_up(ASSUMED_ACCEPTANCE, ASSUMED_LENGTH, ours / theirs)
    return (
        f"{assistant.name} ({ours:,} weights) is larger than its target {target.name} ({theirs:,}): expect "
        f"{speed:.2f} times the speed of plain generation, if {ASSUMED_ACCEPTANCE:.0%} of the candidates are "
        f"accepted, {ASSUMED_LENGTH} are drafted a round, and a pass costs time in proportion to the weights.",
    )
