"""`tandem models` as a person runs it, in a process of its own, against a Hub on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import snapshot_download

from tests.helpers import hub_server, tiny
from tests.helpers.hub_server import ACCESS, COMMIT, NO_ACCESS, Fault, Hub, Repo

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    tiny.model("llama").save_pretrained(folder, max_shard_size="100KB")
    tiny.tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def hub(checkpoint: Path) -> Iterator[Hub]:
    with hub_server.serving() as hub:
        parameters = sum(each.numel() for each in tiny.model("llama").parameters())
        hub.repos["lab/tiny"] = Repo.of(checkpoint, parameters=parameters, downloads=7)
        yield hub


@pytest.fixture
def environment(hub: Hub, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": hub.url,
        "TANDEM_HOME": str(tmp_path / "home"),
        "PYTHONUTF8": "1",
    }


@pytest.fixture
def tandem(environment: dict[str, str]) -> Run:
    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            env=environment | more,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def answer(run: subprocess.CompletedProcess[str]) -> Any:
    assert run.returncode == 0, run.stderr + run.stdout
    return json.loads(run.stdout)


def test_from_search_to_a_reply(tandem: Run, hub: Hub, environment: dict[str, str]) -> None:
    """The whole way: find it, look at it, judge the pair, download, see it listed, write with it, delete it."""
    found = answer(tandem("models", "search", "tin", "--json"))
    assert [(each["repo"], each["present"]) for each in found] == [("lab/tiny", False)]
    seen = answer(tandem("models", "inspect", "lab/tiny", "--json"))
    assert seen["bytes"] == sum(map(len, hub.repos["lab/tiny"].files.values())) and seen["commit"] == COMMIT
    assert not [name for name in hub.sent if name.endswith(".safetensors")], "looking fetches no weights"
    pair = answer(tandem("models", "pair", "lab/tiny", "lab/tiny", "--json"))
    assert pair["verdict"]["kind"] == "same" and pair["memory"]["fits"]
    got = answer(tandem("models", "download", "lab/tiny", "--json"))
    assert got["fetched"] == got["bytes"] == seen["bytes"]
    cache = Path(environment["HF_HOME"]) / "hub"
    assert snapshot_download("lab/tiny", cache_dir=cache, local_files_only=True)
    listed = answer(tandem("models", "list", "--json"))
    assert [(each["repo"], each["commit"], each["missing"]) for each in listed] == [("lab/tiny", COMMIT, [])]
    said = answer(
        tandem(
            *("say", "hello", "--target", "lab/tiny", "--assistant", "lab/tiny", "--json"),
            *("--max-new-tokens", "4", "--quantization", "float32"),
            HF_HUB_OFFLINE="1",
        )
    )
    assert said["pair"]["target"] == "tiny" and said["rounds"]
    assert answer(tandem("models", "remove", "lab/tiny", "--json"))["freed"] > 0
    assert answer(tandem("models", "list", "--json")) == []


def test_text_for_people(tandem: Run) -> None:
    tandem("models", "download", "lab/tiny")
    assert "apache-2.0, here" in tandem("models", "search").stdout
    about = tandem("models", "inspect", "lab/tiny").stdout
    assert "LlamaForCausalLM" in about and "nf4" in about and "A download fetches" in about
    verdict = tandem("models", "pair", "lab/tiny", "lab/tiny").stdout
    assert "same tokenizer" in verdict and "Together they take" in verdict
    assert "whole" in tandem("models", "list").stdout
    assert "Nothing was found" in tandem("models", "search", "zebra").stdout


def test_a_pair_that_cannot_work(tandem: Run, hub: Hub, checkpoint: Path) -> None:
    """P4: an encoder, found out from its configuration alone."""
    files = dict(hub.repos["lab/tiny"].files)
    files["config.json"] = json.dumps({"model_type": "bert", "architectures": ["BertForMaskedLM"]}).encode()
    hub.repos["lab/encoder"] = Repo(files)
    run = tandem("models", "pair", "lab/tiny", "lab/encoder")
    assert run.returncode == 1 and "cannot write text left to right" in run.stdout
    assert not [name for name in hub.sent if name.endswith(".safetensors")]


def test_gated_models_are_looked_at_and_not_given(tandem: Run, hub: Hub) -> None:
    """H1, and no token in what is printed."""
    hub.repos["lab/tiny"].gated = True
    for token, words in (("", "no access token"), (NO_ACCESS, "no access yet")):
        seen = tandem("models", "inspect", "lab/tiny", HF_TOKEN=token)
        assert seen.returncode == 0 and words in seen.stdout
        refused = tandem("models", "download", "lab/tiny", HF_TOKEN=token)
        assert refused.returncode == 1 and words in refused.stderr
        assert NO_ACCESS not in refused.stderr + refused.stdout
    assert tandem("models", "download", "lab/tiny", HF_TOKEN=ACCESS).returncode == 0


def test_offline_is_said_and_what_is_here_works(tandem: Run) -> None:
    tandem("models", "download", "lab/tiny")
    refused = tandem("models", "search", "tiny", HF_HUB_OFFLINE="1")
    assert refused.returncode == 1 and "offline" in refused.stderr
    pair = tandem("models", "pair", "lab/tiny", "lab/tiny", HF_HUB_OFFLINE="1")
    assert "same tokenizer" in pair.stdout
    unreachable = tandem("models", "search", "tiny", HF_ENDPOINT="http://127.0.0.1:9")
    assert unreachable.returncode == 1 and "cannot be reached" in unreachable.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_interrupted_it_goes_on_from_there(tandem: Run, hub: Hub, environment: dict[str, str]) -> None:
    name = next(each for each in sorted(hub.repos["lab/tiny"].files) if each.endswith(".safetensors"))
    whole = hub.repos["lab/tiny"].files[name]
    hub.repos["lab/tiny"].files[name] = whole = whole + bytes(8_000_000)
    hub.faults[name] = Fault(slow=0.05)
    command = [sys.executable, "-m", "app", "models", "download", "lab/tiny"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while hub.sent[name] < 500_000:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    hub.faults.clear()
    before = hub.sent[name]
    again = answer(tandem("models", "download", "lab/tiny", "--json"))
    assert 0 < again["fetched"] < again["bytes"]
    assert hub.sent[name] - before < len(whole), "what was there is not asked for again"


def test_one_file_again(tandem: Run, hub: Hub) -> None:
    tandem("models", "download", "lab/tiny")
    sent = hub.sent["config.json"]
    assert answer(tandem("models", "download", "lab/tiny", "--again", "config.json", "--json"))["fetched"] > 0
    assert hub.sent["config.json"] > sent
    assert "needs no file" in tandem("models", "download", "lab/tiny", "--again", "other.bin").stderr


@pytest.mark.parametrize("arguments", [["search", "--largest", "big"], ["search", "--limit", "0"], []])
def test_wrong_options_are_refused(tandem: Run, arguments: list[str]) -> None:
    assert tandem("models", *arguments).returncode == 2
