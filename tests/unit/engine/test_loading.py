"""Loading a pair from folders: what is refused, with which words; a stranger's code and pickles never run (H7)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
import torch

from app.engine.cached_model import ModelPair
from app.errors import Cancelled, UserFacingError
from app.models.loading import load_pair
from app.records import PairSpec, Progress
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
    spec = PairSpec(str(target), None if assistant is None else str(assistant), "float64")
    steps, heard = load_pair(spec, target.parent / "models", stop or Event()), []
    while True:
        try:
            heard.append(next(steps))
        except StopIteration as finished:
            return heard, finished.value


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
    assert (pair.summary.target, pair.summary.assistant, pair.summary.dtype) == ("big", "small", "float64")
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


def test_another_vocabulary_is_refused_with_the_number_of_differing_tokens(
    checkpoint: Callable[..., Path],
) -> None:
    target, assistant = checkpoint("big"), checkpoint("small")
    tokenizer = json.loads((assistant / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (assistant / "tokenizer.json").write_text(json.dumps(tokenizer))
    error = refusal(target, assistant)
    assert "do not share a vocabulary" in error.title
    assert error.detail.startswith("2 of 320 ")


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
