"""Real transformers models of a few thousand weights, in float64, with a tokenizer built in code."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    BartConfig,
    BartForCausalLM,
    BartForConditionalGeneration,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from app.engine.cached_model import CachedModel, ModelPair
from app.engine.text import ChatText
from app.records import PairSummary

SENTENCES = (
    "The lighthouse keeper counts the ships, and the ships count the lighthouse.",
    "A small model drafts; the large one reads all of it at once and keeps what it would have written.",
    "def area(width, height):\n    return width * height\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
)
TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
OTHER_SENTENCES = (
    "The other half of the quick quiz is about boxes and ships.",
    "Für große Boxer genügen Böden.",
)
OTHER_TEMPLATE = (
    "{% for message in messages %}<s>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<s>{% endif %}"
)
SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
}
WITHOUT_HEAD_DIM = {key: value for key, value in SHAPE.items() if key != "head_dim"}
SPREAD = {"initializer_range": 0.1}
KINDS: dict[str, tuple[type, type, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, SHAPE),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, SHAPE),
    "mistral-sliding": (MistralConfig, MistralForCausalLM, {**SHAPE, "sliding_window": 8}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, SHAPE),
    "phi": (PhiConfig, PhiForCausalLM, WITHOUT_HEAD_DIM),
    "gpt-neox": (GPTNeoXConfig, GPTNeoXForCausalLM, WITHOUT_HEAD_DIM),
    "opt": (OPTConfig, OPTForCausalLM, {**SHAPE, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "gpt2": (GPT2Config, GPT2LMHeadModel, {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}),
    "gemma2-sliding": (Gemma2Config, Gemma2ForCausalLM, {**SHAPE, "sliding_window": 8}),
    "gemma3-sliding": (
        Gemma3TextConfig,
        Gemma3ForCausalLM,
        {**SHAPE, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    ),
}
T5_SHAPE = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 3,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "decoder_start_token_id": 0,
    "initializer_factor": 0.5,
}
BART_SHAPE = {
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 128,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
    "init_std": 0.2,
}
WITH_SOURCE: dict[str, tuple[type, type, dict[str, Any]]] = {
    "t5": (T5Config, T5ForConditionalGeneration, T5_SHAPE),
    "t5-gated": (
        T5Config,
        T5ForConditionalGeneration,
        {**T5_SHAPE, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "bart": (BartConfig, BartForConditionalGeneration, BART_SHAPE),
    "bart-forced": (BartConfig, BartForConditionalGeneration, {**BART_SHAPE, "forced_bos_token_id": 0}),
}
"""Encoder-decoder models, with as many layers in the encoder as in the decoder: generate() asks for that."""


@cache
def tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """Byte-level BPE, so that every text can be written; "<|end|>" (id 1) ends a turn."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(SENTENCES, trainer)
    return _wrapped(made, template)


@cache
def other_tokenizer(template: str | None = OTHER_TEMPLATE) -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on other text: other ids, another size, other special tokens and template."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(OTHER_SENTENCES, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>", chat_template=template
    )


@cache
def byte_fallback_tokenizer() -> PreTrainedTokenizerFast:
    """In the manner of Llama 2 and Gemma: words start with a mark for the space, and what the vocabulary lacks
    is spelled in bytes, of which the decoder gives up a whole run while its last character is incomplete."""
    pieces = ["<|start|>", "<|end|>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581"]
    pieces += [letter for letter in map(chr, range(33, 127)) if letter != "\u2581"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    made = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    made.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _wrapped(made, None)


def _wrapped(made: Tokenizer, template: str | None) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<|start|>", eos_token="<|end|>", chat_template=template
    )


TALKATIVE = {"t5": 11, "t5-gated": 3, "bart": 4, "bart-forced": 4}
"""Seeds of models that say more than one token on end."""


def model(kind: str, seed: int | None = None, **changes: int) -> PreTrainedModel:
    """An untrained model of one of KINDS or WITH_SOURCE; the same seed gives the same weights.

    Made without touching the state of the global random numbers.
    """
    config_class, model_class, shape = (KINDS | WITH_SOURCE)[kind]
    ids = {"vocab_size": len(tokenizer()), "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    with torch.random.fork_rng():
        torch.manual_seed(TALKATIVE.get(kind, 0) if seed is None else seed)
        made: PreTrainedModel = model_class(config_class(**{**ids, **SPREAD, **shape, **changes}))
        if kind in WITH_SOURCE:
            _loosen(made, 0.8 if kind.startswith("t5") else 0.2)
    return made.double().eval()


def _loosen(made: PreTrainedModel, spread: float) -> None:
    """Larger weights around tied embeddings, without which such a model says one token on end."""
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if weight.dim() == 2 and "shared" not in name and "embed_tokens" not in name:
                weight.copy_(spread * (2 if "positions" in name else 1) * torch.randn(weight.shape))


def decoder_of(original: PreTrainedModel) -> PreTrainedModel:
    """The decoder of a BART model by itself: it needs another model's encoder to read the source."""
    settings = original.config.to_dict() | {"is_decoder": True, "is_encoder_decoder": False}
    alone: PreTrainedModel = BartForCausalLM(BartConfig(**settings, add_cross_attention=True))
    alone.model.decoder.load_state_dict(original.model.decoder.state_dict())
    alone.lm_head.load_state_dict(original.lm_head.state_dict())
    return alone.double().eval()


def noisy(original: PreTrainedModel, amount: float, seed: int = 1) -> PreTrainedModel:
    """A copy that agrees with the original in part: each weight shaken by `amount` of its matrix's spread."""
    generator = torch.Generator().manual_seed(seed)
    shaken = copy.deepcopy(original)
    with torch.no_grad():
        for weight in shaken.parameters():
            shake = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
            weight.add_(amount * weight.std() * shake)
    return shaken


def save(made: PreTrainedModel, folder: Path, **options: Any) -> Path:
    """A checkpoint with its tokenizer, as a repository holds it."""
    made.save_pretrained(folder, **options)
    tokenizer().save_pretrained(folder)
    return folder


def pair(target: PreTrainedModel, assistant: PreTrainedModel | None = None) -> ModelPair:
    """A fresh pair; without an assistant the target has none."""
    cached = CachedModel(target)
    described = PairSummary("target", "assistant", "cpu", "float64", cached.context_length)
    helper = None if assistant is None else CachedModel(assistant)
    return ModelPair(cached, helper, ChatText(tokenizer()), frozenset({1}), described)


def pair_of_two_tokenizers(
    target: CachedModel, assistant: CachedModel, own: PreTrainedTokenizerFast, template: str | None = TEMPLATE
) -> ModelPair:
    """A fresh pair whose assistant has the tokenizer `own`; `template` is the target's."""
    described = PairSummary("target", "assistant", "cpu", "float64", target.context_length)
    text = ChatText(tokenizer(template))
    return ModelPair(target, assistant, text, frozenset({1}), described, ChatText(own))


def generated(target: PreTrainedModel, prompt: list[int], max_new_tokens: int) -> list[int]:
    """What transformers' own greedy generate() answers."""
    output = target.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=max_new_tokens)
    return output[0, len(prompt) :].tolist()
