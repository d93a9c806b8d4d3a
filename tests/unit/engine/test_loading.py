"""Loading a pair from folders: what is refused, with which words; a stranger's code and pickles never run (H7)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM

from app.engine.cached_model import ModelPair
from app.engine.decoding import rounds
from app.errors import Cancelled, UserFacingError
from app.models.loading import load_pair
from app.records import (
    DraftSettings,
    GenerationRequest,
    Message,
    PairSpec,
    Progress,
    SamplingSettings,
    Trace,
)
from tests.helpers import tiny
from tests.helpers.replies import emitted, plain, reply


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[[str], Path]:
    """Writes an ordinary checkpoint folder of a tiny model."""

    def write(name: str, **changes: int) -> Path:
        folder = tmp_path / name
        tiny.model("llama", **changes).save_pretrained(folder)
        tiny.tokenizer().save_pretrained(folder)
        return folder

    return write


def load(
    target: Path, assistant: Path | None = None, stop: Event | None = None
) -> tuple[list[Progress], ModelPair]:
    spec = PairSpec.of(str(target), None if assistant is None else str(assistant), "float64")
    heard: list[Progress] = []
    return heard, load_pair(spec, target.parent / "models", stop or Event(), heard.append)


def refusal(target: Path, assistant: Path | None = None) -> UserFacingError:
    with pytest.raises(UserFacingError) as caught:
        load(target, assistant)
    assert caught.value.title
    assert caught.value.remedy
    return caught.value


def test_a_loaded_pair_is_ready_to_write(checkpoint: Callable[..., Path]) -> None:
    heard, pair = load(checkpoint("big"), checkpoint("small", num_hidden_layers=1))
    shares = [each.share or 0.0 for each in heard]
    assert shares == sorted(shares)
    assert (pair.summary.target, pair.summary.assistant, pair.summary.weights) == ("big", "small", "float64")
    assert pair.summary.context_length == pair.target.context_length == 512
    assert pair.eos_ids == {1}
    assert pair.target.tokens == [], "warming up leaves nothing behind"
    assert emitted(reply(pair, "The ships", 8)) == plain(tiny.pair(tiny.model("llama")), "The ships", 8)


def test_a_target_alone(checkpoint: Callable[..., Path]) -> None:
    _, pair = load(checkpoint("big"))
    assert pair.assistant is None
    assert pair.summary.assistant is None


def test_an_eos_list_is_read_and_joined_with_the_tokenizers_own(checkpoint: Callable[..., Path]) -> None:
    folder = checkpoint("big")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))
    assert load(folder)[1].eos_ids == {1, 7, 9}


def test_a_missing_folder(tmp_path: Path) -> None:
    assert "No model found" in refusal(tmp_path / "nowhere").title


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("no model here")
    assert "No model found" in refusal(tmp_path).title


BROKEN = (
    "{ not json",
    "[]",
    '"text"',
    "{}",
    '{"model_type": "none such"}',
    '{"model_type": "llama", "hidden_size": "x"}',
)


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_configuration(checkpoint: Callable[..., Path], content: str) -> None:
    folder = checkpoint("big")
    (folder / "config.json").write_text(content)
    assert "big could not be loaded" in refusal(folder).title


def test_a_model_that_cannot_write_text(checkpoint: Callable[..., Path]) -> None:
    """P1: an encoder."""
    folder = checkpoint("big")
    (folder / "config.json").write_text(json.dumps({"model_type": "vit", "architectures": ["ViTModel"]}))
    refusal(folder)


def test_weights_that_are_missing(checkpoint: Callable[..., Path]) -> None:
    folder = checkpoint("big")
    (folder / "model.safetensors").unlink()
    assert "big could not be loaded" in refusal(folder).title


def test_weights_that_are_cut_off(checkpoint: Callable[..., Path]) -> None:
    folder = checkpoint("big")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    assert "big could not be loaded" in refusal(folder).title


def test_weights_of_another_shape(checkpoint: Callable[..., Path]) -> None:
    folder = checkpoint("big")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))
    assert "big could not be loaded" in refusal(folder).title


def test_weights_that_lack_a_layer(checkpoint: Callable[..., Path]) -> None:
    """Filled up at random, the model would write nonsense and nobody would know why."""
    folder = checkpoint("big")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    assert "big could not be loaded" in refusal(folder).title


def test_a_missing_tokenizer(checkpoint: Callable[..., Path]) -> None:
    folder = checkpoint("big")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    assert "big could not be loaded" in refusal(folder).title


class Booby:
    """Pickles to a call that writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.write_text, (self.path, "executed")


def test_a_pickle_checkpoint_is_refused(checkpoint: Callable[..., Path]) -> None:
    """Also a harmless one, which transformers would load."""
    folder = checkpoint("big")
    (folder / "model.safetensors").unlink()
    torch.save(tiny.model("llama").state_dict(), folder / "pytorch_model.bin")
    assert "big could not be loaded" in refusal(folder).title


def test_a_pickle_is_never_executed(checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    folder, trace = checkpoint("big"), tmp_path / "trace"
    (folder / "model.safetensors").unlink()
    torch.save(Booby(trace), folder / "pytorch_model.bin")
    refusal(folder)
    assert not trace.exists()
    torch.load(folder / "pytorch_model.bin", weights_only=False)
    assert trace.exists(), "the trap works"


@pytest.mark.parametrize("model_type", ["llama", "stranger"])
def test_a_repositorys_own_code_never_runs(
    checkpoint: Callable[..., Path], tmp_path: Path, model_type: str
) -> None:
    """C3: neither in place of a known architecture, which loads as usual, nor for an unknown one: refused."""
    folder, trace = checkpoint("big"), tmp_path / "trace"
    code = f"from pathlib import Path\nPath({str(trace)!r}).write_text('executed')\n"
    for name in ("modeling_stranger.py", "configuration_stranger.py", "tokenization_stranger.py"):
        (folder / name).write_text(code)
    for file, entries in {
        "config.json": {
            "model_type": model_type,
            "auto_map": {
                "AutoConfig": "configuration_stranger.StrangerConfig",
                "AutoModelForCausalLM": "modeling_stranger.StrangerForCausalLM",
            },
        },
        "tokenizer_config.json": {
            "auto_map": {"AutoTokenizer": ["tokenization_stranger.StrangerTokenizer", None]}
        },
    }.items():
        stored = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(stored | entries))
    if model_type == "llama":
        load(folder)
    else:
        refusal(folder)
    assert not trace.exists()


def test_a_few_differing_ids_are_allowed_and_noted(checkpoint: Callable[..., Path]) -> None:
    """P4"""
    target, assistant = checkpoint("big"), checkpoint("small")
    tokenizer = json.loads((assistant / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (assistant / "tokenizer.json").write_text(json.dumps(tokenizer))
    _, pair = load(target, assistant)
    assert pair.assistant_text is None
    assert "2 token ids differ of 320" in pair.summary.notes[0]


def test_an_assistant_with_another_tokenizer_brings_it_along(checkpoint: Callable[..., Path]) -> None:
    """P3"""
    target, assistant = checkpoint("big"), checkpoint("small")
    tiny.other_tokenizer().save_pretrained(assistant)
    _, pair = load(target, assistant)
    assert pair.assistant_text is not None
    assert pair.assistant_text.tokenizer.get_vocab() == tiny.other_tokenizer().get_vocab()
    assert "slower" in pair.summary.notes[0]
    expected = plain(tiny.pair(tiny.model("llama")), "The ships", 8)
    assert emitted(reply(pair, "The ships", 8)) == expected


def test_an_encoder_is_refused_before_its_weights_are_read(checkpoint: Callable[..., Path]) -> None:
    """P1: the folder has none."""
    target, assistant = checkpoint("big"), checkpoint("small")
    (assistant / "model.safetensors").unlink()
    config = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    (assistant / "config.json").write_text(json.dumps(config))
    assert "small is an encoder (fill-in-the-blank) model" in refusal(target, assistant).detail


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_encoder_decoder_pairs_load_and_write(kind: str, tmp_path: Path) -> None:
    target = tiny.model(kind)
    for name, model in {"big": target, "small": tiny.noisy(target, 0.1)}.items():
        model.save_pretrained(tmp_path / name)
        tiny.tokenizer(None).save_pretrained(tmp_path / name)
    _, pair = load(tmp_path / "big", tmp_path / "small")
    alone = load(tmp_path / "big")[1]
    finished = reply(pair, "The ships", 12, draft_length=3)
    assert emitted(finished) == plain(alone, "The ships", 12)
    assert any(each.candidates for each in finished)


def test_a_decoder_that_reads_the_targets_encoder_loads(tmp_path: Path) -> None:
    """P7"""
    target = tiny.model("bart")
    for name, model in {"big": target, "small": tiny.decoder_of(target)}.items():
        model.save_pretrained(tmp_path / name)
        tiny.tokenizer(None).save_pretrained(tmp_path / name)
    _, pair = load(tmp_path / "big", tmp_path / "small")
    finished = reply(pair, "The ships", 12, draft_length=3)
    assert sum(each.num_accepted for each in finished) == sum(each.num_judged for each in finished) > 0


@pytest.mark.parametrize("drafter", ["lookup", "early-exit"])
def test_a_stateful_model_is_refused_drafts_of_any_kind(drafter: str, stateful: Path) -> None:
    """P8: before anything is read, with what to do instead."""
    _, pair = load(stateful)
    with pytest.raises(UserFacingError, match="only write without drafts") as caught:
        reply(pair, "The ships", 6, drafter=drafter)
    assert "none" in caught.value.remedy
    assert pair.target.tokens == []


@pytest.fixture
def stateful(tmp_path: Path) -> Path:
    """A Mamba checkpoint."""
    config = MambaConfig(vocab_size=320, hidden_size=32, num_hidden_layers=2, state_size=4, eos_token_id=1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        MambaForCausalLM(config).save_pretrained(tmp_path / "mamba")
    tiny.tokenizer().save_pretrained(tmp_path / "mamba")
    return tmp_path / "mamba"


def test_a_stateful_model_writes_alone_and_again(stateful: Path) -> None:
    """P8, against a model that reads the whole text for every token."""
    _, pair = load(stateful)
    prompt = pair.text.encode([Message("user", "The ships")])
    ids = list(prompt)
    for _ in range(6):
        with torch.inference_mode():
            ids.append(int(pair.target.model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    assert plain(pair, "The ships", 6) == ids[len(prompt) :]
    assert plain(pair, "The ships", 6) == ids[len(prompt) :], "the second turn starts from a clean state"
    forked = replace(pair, target=pair.target.fork())
    assert plain(forked, "The ships", 6) == ids[len(prompt) :]


def test_a_stateful_model_is_refused_assistance(checkpoint: Callable[..., Path], stateful: Path) -> None:
    """P8, before any weights are read."""
    other = checkpoint("big")
    for each in (stateful, other):
        (each / "model.safetensors").unlink()
    for target, assistant in ((stateful, other), (other, stateful)):
        error = refusal(target, assistant)
        assert "mamba keeps a running state" in error.detail
        assert "without an assistant" in error.remedy


def test_a_stateful_model_writes_variants(stateful: Path) -> None:
    """P8: each sequence has a state of its own."""
    _, pair = load(stateful)
    messages = (Message("user", "The ships"),)
    request = GenerationRequest(
        messages, SamplingSettings(temperature=1.0), DraftSettings("none"), 6, num_variants=3
    )
    together = Trace(request, "match", tuple(rounds(pair, request, Event())))
    alone = [Trace(each, "match", tuple(rounds(pair, each, Event()))).text for each in request.variants()]
    assert list(together.texts) == alone


def test_a_rollback_of_a_stateful_model_fails_in_words(stateful: Path) -> None:
    """P8: it must not go on from nothing in silence, as after rejected candidates of prompt lookup."""
    _, pair = load(stateful)
    pair.target.forward([5, 6, 7])
    pair.target.crop(2)
    with pytest.raises(UserFacingError, match="take rejected tokens back"):
        pair.target.forward([8])
    assert pair.target.keep_prefix([5, 6]) == 0
    pair.target.forward([5, 6])


def test_an_assistant_larger_than_its_target_is_noted(checkpoint: Callable[..., Path]) -> None:
    """P9, by the numbers in the files."""
    _, pair = load(checkpoint("small", num_hidden_layers=1), checkpoint("big"))
    weights = [
        sum(each.numel() for each in model.model.parameters()) for model in (pair.target, pair.assistant)
    ]
    (note,) = pair.summary.notes
    assert f"small ({weights[0]:,})" in note.replace("its target ", "")
    assert f"big ({weights[1]:,} weights)" in note
    assert load(checkpoint("big"), checkpoint("small", num_hidden_layers=1))[1].summary.notes == ()


def test_a_padded_vocabulary_is_welcome(checkpoint: Callable[..., Path]) -> None:
    """P2: the same tokenizer, more rows."""
    _, pair = load(checkpoint("big", vocab_size=352), checkpoint("small"))
    assert len(emitted(reply(pair, "The ships", 6, draft_length=2, temperature=1.0))) <= 6


def test_stop_cancels(checkpoint: Callable[..., Path]) -> None:
    stop = Event()
    stop.set()
    with pytest.raises(Cancelled):
        load(checkpoint("big"), checkpoint("small"), stop)


def test_loading_leaves_the_folder_as_it_was(checkpoint: Callable[..., Path]) -> None:
    folder = checkpoint("big")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    load(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    shutil.rmtree(folder)
