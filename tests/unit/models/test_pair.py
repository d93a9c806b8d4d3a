"""Pairs judged from their files: what works, what is refused, and in which words (P1-P4, P7-P9, C3)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from app.models.pair import (
    Checkpoint,
    Verdict,
    count_parameters,
    estimate_parameters,
    is_stateful,
    judge,
    refusal,
    shape,
)
from tests.helpers import tiny

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 5632,
    "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000,
    "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip
QWEN_7B = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "vocab_size": 152064,
    "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip
QWEN_HALF = QWEN_7B | {
    "hidden_size": 896, "vocab_size": 151936, "intermediate_size": 4864, "num_hidden_layers": 24,
    "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True,
}  # fmt: skip
T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "is_encoder_decoder": True,
    "d_model": 512,
}
BART = {
    "model_type": "bart", "architectures": ["BartForConditionalGeneration"],
    "is_encoder_decoder": True, "d_model": 1024,
}  # fmt: skip
BART_DECODER = {
    "model_type": "bart", "architectures": ["BartForCausalLM"],
    "is_encoder_decoder": False, "is_decoder": True, "d_model": 1024,
}  # fmt: skip
STATEFUL = {
    "Mamba": {"model_type": "mamba", "architectures": ["MambaForCausalLM"]},
    "RWKV": {"model_type": "rwkv", "architectures": ["RwkvForCausalLM"]},
    "xLSTM": {"model_type": "xlstm", "architectures": ["xLSTMForCausalLM"]},
    "Jamba": {"model_type": "jamba", "architectures": ["JambaForCausalLM"], "attn_layer_period": 8},
    "Qwen3-Next": {"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"]},
}
ENCODERS = {
    "BERT": {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
    "XLM-R": {"model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"]},
    "RoBERTa": {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"]},
    "DeBERTa": {"model_type": "deberta-v2"},
    "ELECTRA": {"model_type": "electra", "architectures": ["ElectraForPreTraining"]},
    "T5 encoder": {"model_type": "t5", "architectures": ["T5EncoderModel"]},
}


@cache
def words(swapped: int = 0, lower: bool = False, size: int = 1000) -> PreTrainedTokenizerFast:
    """A vocabulary of `size` words, of which the last `swapped` are other ones."""
    pieces = ["<|start|>", "<|end|>", *(f"word{i}" for i in range(size - 2))]
    pieces[size - swapped :] = [f"other{i}" for i in range(swapped)]
    made = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="<|end|>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    if lower:
        made.normalizer = normalizers.Replace("\t", "")
        made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|start|>", eos_token="<|end|>")


def verdict(
    target: dict[str, Any],
    assistant: dict[str, Any],
    tokenizer: PreTrainedTokenizerFast | None = None,
    weights: tuple[int | None, int | None] = (10, 1),
) -> Verdict:
    shared = words()
    return judge(
        Checkpoint("Big", target, shared, weights[0]),
        Checkpoint("Small", assistant, tokenizer or shared, weights[1]),
    )


@pytest.mark.parametrize("name", ENCODERS)
def test_p1_an_encoder_is_refused(name: str) -> None:
    expected = f"{name} is an encoder (fill-in-the-blank) model; it cannot write text left to right."
    assert refusal(ENCODERS[name], name) == expected
    for pair in (verdict(ENCODERS[name], LLAMA), verdict(LLAMA, ENCODERS[name])):
        assert pair.kind == "refused"
        assert "fill-in-the-blank" in pair.reason


def test_p1_a_decoder_of_berts_kin_is_not_an_encoder() -> None:
    config = {"model_type": "bert", "architectures": ["BertLMHeadModel"], "is_decoder": True}
    assert refusal(config, "BERT") is None


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}, "is a classifier"),
        ({"model_type": "vit", "architectures": ["ViTModel"]}, "is not a model that writes text"),
        ({"model_type": "whisper", "is_encoder_decoder": True}, "is not a model that writes text"),
        ({}, "is not known here"),
    ],
)
def test_what_cannot_write_text_is_refused(config: dict[str, Any], reason: str) -> None:
    assert reason in (refusal(config, "X") or "")


def test_c3_a_model_that_needs_its_own_code_is_refused_and_one_that_only_brings_some_is_not() -> None:
    brings = {"auto_map": {"AutoModelForCausalLM": "modeling_x.XForCausalLM"}}
    stranger = {"model_type": "stranger", **brings}
    assert "only with your consent" in (refusal(stranger, "X") or "")
    assert refusal(stranger, "X", own_code=True) is None
    assert refusal({**LLAMA, **brings}, "X") is None


@pytest.mark.parametrize("config", [LLAMA, QWEN_7B, T5, BART, BART_DECODER, *STATEFUL.values()])
def test_what_writes_text_is_welcome(config: dict[str, Any]) -> None:
    assert refusal(config, "X") is None


def test_the_same_tokenizer_is_the_same() -> None:
    assert verdict(LLAMA, LLAMA) == Verdict("same", "Big and Small have the same tokenizer.")


def test_p2_padded_vocabularies_are_fine() -> None:
    found = verdict(QWEN_7B, QWEN_HALF)
    assert (found.kind, found.notes) == ("padded", ())
    assert "padded vocabulary differs (152,064 and 151,936): fine" in found.reason


def test_p3_another_tokenizer_is_named_and_called_slower() -> None:
    target = Checkpoint("Llama-3-8B", LLAMA | {"vocab_size": 128256}, tiny.tokenizer(), 8)
    found = judge(target, Checkpoint("TinyLlama", LLAMA, tiny.byte_fallback_tokenizer(), 1))
    assert found.kind == "other-tokenizer"
    assert "Llama-3-8B and TinyLlama have different tokenizers" in found.reason
    assert "universal assisted generation" in found.reason
    assert "slower" in found.reason


def test_p3_sizes_tell_nothing() -> None:
    """As large, and other words."""
    assert verdict(LLAMA, LLAMA, words(swapped=1000 - 2)).kind == "other-tokenizer"


def test_p4_one_differing_token_hides_no_family() -> None:
    found = verdict(LLAMA, LLAMA, words(swapped=1))
    assert found.kind == "some-ids-differ"
    assert "1 token id differs of 1,000 (999 is 'word997' and 'other0')" in found.notes[0]


def test_p4_up_to_a_hundredth_may_differ() -> None:
    at_most = verdict(LLAMA, LLAMA, words(swapped=10))
    assert at_most.kind == "some-ids-differ"
    assert "10 token ids differ" in at_most.notes[0]
    assert verdict(LLAMA, LLAMA, words(swapped=11)).kind == "other-tokenizer"


def test_p4_tokens_that_only_one_of_them_has_are_counted() -> None:
    assert "2 token ids differ" in verdict(LLAMA, LLAMA, words(size=998)).notes[0]
    assert "2 token ids differ" in verdict(LLAMA, LLAMA, words(size=1002)).notes[0]


def test_another_way_to_split_the_same_vocabulary_is_noted() -> None:
    found = verdict(LLAMA, LLAMA, words(lower=True))
    assert found.kind == "same"
    assert "split" in found.notes[0]


def test_other_endings_are_noted() -> None:
    other = PreTrainedTokenizerFast(tokenizer_object=words().backend_tokenizer, eos_token="word5")
    assert "'<|end|>' and Small with 'word5'" in verdict(LLAMA, LLAMA, other).notes[0]


def test_p7_encoder_decoder_models_work_together() -> None:
    assert shape(T5) == shape(BART) == "encoder-decoder"
    assert verdict(BART, BART).kind == verdict(T5, T5).kind == "same"


def test_p7_a_decoder_that_reads_the_targets_encoder_works() -> None:
    assert shape(BART_DECODER) == "cross-attending decoder"
    assert verdict(BART, BART_DECODER).kind == "same"


def test_p7_a_decoder_for_another_width_is_refused() -> None:
    found = verdict(BART, BART_DECODER | {"d_model": 768})
    assert found.kind == "refused"
    assert "768 numbers wide, and that of Big is 1024" in found.reason


def test_p7_a_decoder_that_does_not_see_the_source_is_refused() -> None:
    found = verdict(T5, LLAMA)
    assert found.kind == "refused"
    assert "does not see the source text" in found.reason


@pytest.mark.parametrize("assistant", [T5, BART_DECODER])
def test_p7_an_encoder_for_a_target_without_one_is_refused(assistant: dict[str, Any]) -> None:
    assert shape(LLAMA) == "decoder"
    found = verdict(LLAMA, assistant)
    assert found.kind == "refused"
    assert "Small" in found.reason
    assert "encoder" in found.reason


def test_p7_an_encoder_decoder_pair_needs_one_tokenizer() -> None:
    assert verdict(T5, T5, words(swapped=500)).kind == "refused"


@pytest.mark.parametrize("name", STATEFUL)
def test_p8_stateful_models_write_alone_only(name: str) -> None:
    assert is_stateful(STATEFUL[name])
    assert refusal(STATEFUL[name], name) is None
    for found, who in ((verdict(STATEFUL[name], LLAMA), "Big"), (verdict(LLAMA, STATEFUL[name]), "Small")):
        assert found.kind == "refused"
        assert f"{who} keeps a running state" in found.reason


def test_p8_the_layers_that_are_named_decide() -> None:
    gemma = {"model_type": "gemma2", "num_hidden_layers": 2}
    assert not is_stateful(gemma | {"layer_types": ["sliding_attention", "full_attention"]})
    assert not is_stateful({"model_type": "lfm2", "num_hidden_layers": 1, "layer_types": ["full_attention"]})
    assert is_stateful({"model_type": "lfm2", "num_hidden_layers": 1, "layer_types": ["conv"]})


def test_p9_a_larger_assistant_is_warned_of_with_the_slow_down() -> None:
    found = verdict(LLAMA, LLAMA, weights=(1000, 2000))
    assert found.kind == "same"
    (note,) = found.notes
    assert "larger than its target" in note
    assert "expect 0.34 times the speed" in note  # 3.68928 / 11
    assert "80% of the candidates" in note
    assert verdict(LLAMA, LLAMA, weights=(1000, 1000)).notes == ()


def test_p9_works_from_configurations_alone() -> None:
    assert "larger" in verdict(QWEN_HALF, QWEN_7B, weights=(None, None)).notes[0]
    assert verdict(QWEN_7B, QWEN_HALF, weights=(None, None)).notes == ()


@pytest.mark.parametrize(
    ("config", "weights"), [(LLAMA, 1_100_048_384), (QWEN_7B, 7_615_616_512), (QWEN_HALF, 494_032_768)]
)
def test_estimated_weights_are_close_to_the_published_numbers(config: dict[str, Any], weights: int) -> None:
    assert estimate_parameters(config) == pytest.approx(weights, rel=0.01)


@pytest.mark.parametrize("config", [T5, STATEFUL["Mamba"], {"model_type": "mixtral"}])
def test_other_shapes_are_not_estimated(config: dict[str, Any]) -> None:
    assert estimate_parameters(config) is None


def test_weights_are_counted_by_the_headers_of_the_files(tmp_path: Path) -> None:
    model = tiny.model("llama")
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert count_parameters(tmp_path) == sum(each.numel() for each in model.parameters())
    assert count_parameters(tmp_path / "nowhere") is None


def test_a_configuration_is_judged_as_transformers_builds_it() -> None:
    """The decoder that is taken for one really is what the mapping loads."""
    config = AutoConfig.for_model("bart", d_model=16, encoder_layers=1, decoder_layers=1, vocab_size=99)
    stored = AutoModelForCausalLM.from_config(config).config.to_dict()
    assert shape(stored | {"architectures": ["BartForCausalLM"]}) == "cross-attending decoder"
