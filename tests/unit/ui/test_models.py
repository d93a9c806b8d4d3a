"""The pages about models, by hand: searching, looking, downloading, consenting, choosing and loading a pair."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import close_session
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QPushButton

from app.records import ModelSpec, PairSpec
from app.ui.consent_dialog import ConsentDialog
from tests.helpers import hub_server, showcase, tiny
from tests.helpers.fake_engine import PAIR
from tests.helpers.hub_server import ACCESS, COMMIT, Fault, Hub, Repo
from tests.helpers.sample_rounds import BICYCLE
from tests.helpers.stage import Stage, rows

GB = 1_000_000_000
TARGET, ASSISTANT = "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"
OWN_CODE = "hedgehog-lab/hedgehog-1b"


@pytest.fixture(autouse=True)
def no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "tokens" / "token"))


@pytest.fixture
def hub(stage: Stage) -> Iterator[Hub]:
    """Twelve models, and the window in front of them."""
    with hub_server.serving() as hub, showcase.memory_of(24 * GB):
        showcase.fill(hub)
        stage.connect_to(hub)
        stage.engine.worker.loaded.emit(PAIR)
        yield hub
        stage.controllers.shut_down()
    close_session()


def found(stage: Stage) -> list[str]:
    return rows(stage.window.models_page.view)


def search(stage: Stage, text: str) -> None:
    field = stage.control("Search the Hub", QLineEdit)
    field.clear()
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Qt.Key.Key_Return)
    stage.settle()


def choose(stage: Stage, name: str, choice: str) -> None:
    box = stage.control(name, QComboBox)
    box.setCurrentIndex(box.findText(choice))
    box.activated.emit(box.currentIndex())
    stage.settle()


def look(stage: Stage, repo: str) -> None:
    stage.open("models")
    stage.look_at(repo)


def store(stage: Stage, *names: str) -> None:
    showcase.store(stage.folder / "cache", names)
    stage.controllers.models.read_disk()
    stage.settle()


def dialog(stage: Stage) -> ConsentDialog:
    return next(each for each in stage.window.findChildren(ConsentDialog) if each.isVisible())


# Searching


@pytest.mark.usefixtures("hub")
def test_a_search_by_name_filter_and_order(stage: Stage) -> None:
    stage.open("models")
    assert found(stage)[0].startswith(TARGET)
    search(stage, "qwen2.5")
    assert len(found(stage)) == 5
    search(stage, f"https://huggingface.co/{ASSISTANT}/tree/main")
    assert [each.partition(",")[0] for each in found(stage)] == [ASSISTANT]
    search(stage, "")
    choose(stage, "Size", "Up to 1B")
    assert {each.partition(",")[0] for each in found(stage)} == {
        ASSISTANT,
        "HuggingFaceTB/SmolLM2-360M-Instruct",
        "old-lab/story-writer-800m",
    }
    stage.button("Clear the filters").click()
    stage.settle()
    choose(stage, "Sort", "Smallest first")
    assert found(stage)[0].startswith("HuggingFaceTB/SmolLM2-360M")
    assert found(stage)[-1].startswith("Qwen/Qwen2.5-72B")


def test_a_row_tells_what_matters(stage: Stage, hub: Hub) -> None:
    showcase.store(stage.folder / "cache", (ASSISTANT,))
    stage.open("models")
    row = next(each for each in found(stage) if each.startswith(ASSISTANT))
    assert all(each in row for each in ("988.1 MB", "here", "494M", "32K context", "apache-2.0", "Qwen2"))
    gated = next(each for each in found(stage) if each.startswith("meta-llama"))
    assert "gated" in gated and "llama3.2" in gated


def test_only_rows_in_view_are_looked_at_and_more_come_with_scrolling(stage: Stage, hub: Hub) -> None:
    small = Repo({"config.json": b'{"max_position_embeddings": 2048}', "model.safetensors": b"0" * 2048})
    hub.repos = {f"lab/model-{number:03}": replace(small, downloads=1000 - number) for number in range(260)}
    stage.open("models")
    assert len(found(stage)) == 50
    looked = [each for each in hub.requests if each.startswith("GET /api/models/lab/") and "refs" not in each]
    assert 5 <= len(looked) <= 25
    bar = stage.window.models_page.view.verticalScrollBar()
    for _ in range(7):
        bar.setValue(bar.maximum())
        stage.settle()
    assert len(found(stage)) == 260
    assert "2K context" in found(stage)[-1]


def test_nothing_found_and_a_failing_hub_have_words_and_a_way_out(stage: Stage, hub: Hub) -> None:
    stage.open("models")
    search(stage, "nobody bears this name")
    assert "Nothing was found" in stage.words()
    hub.faults["/api/models"] = Fault(status=500)
    search(stage, "qwen")
    assert "error 500" in stage.words()
    stage.button("Try again").click()
    stage.settle()
    assert len(found(stage)) == 5 and "error 500" not in stage.words()


def test_offline_shows_the_disk(stage: Stage) -> None:
    showcase.store(stage.folder / "cache", (ASSISTANT, OWN_CODE))
    with showcase.memory_of(24 * GB):
        stage.open("models")
        assert "Offline: these are the models on this disk." in stage.words()
        assert len(found(stage)) == 2
        search(stage, "QWEN")
        assert [each.partition(",")[0] for each in found(stage)] == [ASSISTANT]


def test_a_new_search_forgets_the_old_one(stage: Stage, hub: Hub) -> None:
    hub.faults["/api/models"] = Fault(stall=1.0)
    stage.window.show_page("models")
    search(stage, "smollm2")
    assert len(found(stage)) == 2


# A model's page


def test_the_page_of_a_model(stage: Stage, hub: Hub) -> None:
    look(stage, TARGET)
    words = stage.words()
    assert all(
        each in words for each in ("7.62B weights", "32,768 tokens", "15.23 GB   model.safetensors", "Fits:")
    )
    assert stage.button("Download").text() == "Download, 15.23 GB"
    choose(stage, "Weights to reckon with", "float32")
    assert "Does not fit: 30.98 GB needed, 24.00 GB free on CPU" in stage.words()
    card = stage.window.models_page.model._card.toPlainText()
    assert "tuned to follow instructions" in card and "chart" not in card
    assert not any("example.org" in each for each in hub.requests)


def test_what_is_large_is_told_before_it_is_read(
    stage: Stage, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.models.inspection.LARGE_PEEK", 1000)
    hub.faults["tokenizer.json"] = Fault(slow=1.0)
    stage.open("models")
    view = stage.window.models_page.view
    view.setCurrentIndex(view.rows.index(0))
    stage.wait_for(
        lambda: "Reading configuration and tokenizer of Qwen2.5-7B-Instruct (0 MB)" in stage.words()
    )
    stage.settle()


def test_h1_a_gated_model_says_what_to_do(stage: Stage, hub: Hub) -> None:
    look(stage, "meta-llama/Llama-3.2-1B-Instruct")
    words = stage.words()
    assert "gated, and there is no access token" in words
    assert f"{hub.url}/meta-llama/Llama-3.2-1B-Instruct" in words
    assert not any(
        each.text().startswith("Download,") and each.isVisible()
        for each in stage.window.findChildren(QPushButton)
    )


def test_gguf_files_are_chosen_by_name(stage: Stage, hub: Hub) -> None:
    look(stage, "bartowski/Qwen2.5-7B-Instruct-GGUF")
    assert "Choose one of its GGUF files." in stage.words()
    choose(stage, "GGUF file", "Qwen2.5-7B-Instruct-Q4_K_M.gguf")
    assert stage.button("Download").text() == "Download, 4.65 GB"


def test_c3_consent_is_per_revision_and_can_be_taken_back(stage: Stage, hub: Hub) -> None:
    look(stage, OWN_CODE)
    assert "needs program code of its own, which runs only with your consent" in stage.words()
    stage.window.models_page.model._code.click()
    asked = dialog(stage)
    words = " ".join(each.text() for each in asked.findChildren(QLabel))
    assert OWN_CODE in words and COMMIT[:12] in words
    QTest.keyClick(asked, Qt.Key.Key_Return)  # No is what Enter does
    assert not stage.controllers.shelf.allows("code", OWN_CODE, COMMIT)
    stage.window.models_page.model._code.click()
    next(each for each in dialog(stage).findChildren(QPushButton) if each.text() == "Allow this code").click()
    stage.settle()
    assert stage.controllers.shelf.allows("code", OWN_CODE, COMMIT)
    assert not stage.controllers.shelf.allows("code", OWN_CODE, "f" * 40)
    assert not stage.controllers.shelf.allows("pickle", OWN_CODE, COMMIT)
    stage.window.models_page.model._code.click()
    stage.settle()
    assert not stage.controllers.shelf.allows("code", OWN_CODE, COMMIT)


def test_h7_pickles_need_consent(stage: Stage, hub: Hub) -> None:
    repo = "old-lab/story-writer-800m"
    look(stage, repo)
    assert "Its weights come as pickles only." in stage.words()
    stage.window.models_page.model._pickle.click()
    next(
        each for each in dialog(stage).findChildren(QPushButton) if each.text() == "Allow these files"
    ).click()
    stage.settle()
    assert stage.button("Download").text() == "Download, 1.62 GB"


# Downloads and the library


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    return tiny.save(tiny.model("llama"), folder)


def test_from_the_search_into_the_library_and_out_of_it(stage: Stage, hub: Hub, checkpoint: Path) -> None:
    hub.repos["lab/tiny"] = Repo.of(checkpoint, downloads=10**9)
    look(stage, "lab/tiny")
    stage.button("Download").click()
    stage.wait_for(lambda: "checked and on this disk" in stage.words())
    stage.settle()
    stage.open("library")
    assert "lab/tiny" in stage.words() and COMMIT[:8] in stage.words()
    look(stage, "lab/tiny")
    blobs = stage.folder / "cache" / "models--lab--tiny" / "blobs"
    sent = hub.sent["model.safetensors"]
    again = stage.button("Download a file again")
    next(each for each in again.menu().actions() if each.text() == "model.safetensors").trigger()
    stage.wait_for(lambda: hub.sent["model.safetensors"] == 2 * sent)
    stage.wait_for(lambda: "checked and on this disk" in stage.words())
    assert len(list(blobs.iterdir())) == len(hub.repos["lab/tiny"].files)
    stage.open("models")
    assert "here" in next(each for each in found(stage) if each.startswith("lab/tiny"))
    stage.open("library")
    stage.button("Delete").click()
    next(each for each in dialog(stage).findChildren(QPushButton) if each.text() == "Delete").click()
    stage.settle()
    assert "No models are here yet" in stage.words()
    assert not (stage.folder / "cache" / "models--lab--tiny").exists()


def test_h2_what_is_not_whole_is_told_and_mended(stage: Stage, hub: Hub, checkpoint: Path) -> None:
    hub.repos["lab/tiny"] = Repo.of(checkpoint)
    look(stage, "lab/tiny")
    stage.button("Download").click()
    stage.wait_for(lambda: "checked and on this disk" in stage.words())
    weights = next((stage.folder / "cache").glob("models--lab--tiny/snapshots/*/model.safetensors"))
    weights.resolve().write_bytes(weights.read_bytes()[:-100])
    stage.controllers.models.read_disk()
    stage.settle()
    stage.open("library")
    assert "Missing or damaged: model.safetensors" in stage.words()
    assert "lab/tiny" not in stage.controllers.models.here()
    stage.button("Download the rest").click()
    stage.wait_for(lambda: "lab/tiny" in stage.controllers.models.here())


def test_local_folders_and_files_are_added_and_taken_off(
    stage: Stage, checkpoint: Path, tmp_path: Path
) -> None:
    stage.open("library")
    stage.controllers.models.take_local(str(tmp_path))
    assert "is no model" in stage.words()
    stage.controllers.models.take_local(str(checkpoint))
    stage.settle()
    assert "is no model" not in stage.words()
    assert str(checkpoint) in stage.words() and str(checkpoint) in stage.controllers.models.here()
    stage.button("Take off the list").click()
    assert str(checkpoint) not in stage.controllers.models.here()
    assert (checkpoint / "config.json").exists()


# The pair picker


def pick(stage: Stage, target: str, assistant: str) -> None:
    """Chooses on the page, by the lists."""
    stage.controllers.pair._pair = PairSpec(ModelSpec(TARGET), None)  # looking at the starter would unpack it
    stage.open("pair")
    for side, key in ((stage.window.pair_page.target, target), (stage.window.pair_page.assistant, assistant)):
        place = side.list.rows.place(key)
        assert place is not None, rows(side.list)
        side.list.setCurrentIndex(side.list.rows.index(place))
        stage.settle()


def candidate(stage: Stage, repo: str) -> str:
    return next(each for each in rows(stage.window.pair_page.assistant.list) if each.startswith(repo))


@pytest.mark.usefixtures("hub")
def test_every_kind_of_verdict_is_listed_with_its_reason(stage: Stage) -> None:
    store(stage, *showcase.HERE)
    pick(stage, TARGET, ASSISTANT)
    assert "same tokenizer, padded vocabulary differs (152,064 and 151,936): fine" in stage.words()
    assert "Expect 1.8 to 2.9 x plain" in stage.words()
    reasons = {
        ASSISTANT: "padded vocabulary differs",
        "HuggingFaceTB/SmolLM2-360M": "different tokenizers (321 ids differ)",
        "state-spaces/mamba": "keeps a running state",
        "FacebookAI/xlm-roberta": "is an encoder (fill-in-the-blank) model",
        OWN_CODE: "runs only with your consent",
        "Qwen/Qwen2.5-1.5B": "Not on this disk · Known pair",
    }
    assert all(words.lower() in candidate(stage, repo).lower() for repo, words in reasons.items())
    assert stage.button("Load this pair").isEnabled()
    pick(stage, TARGET, "FacebookAI/xlm-roberta-base")
    assert "it cannot write text left to right" in stage.words()
    assert not stage.button("Load this pair").isEnabled()


@pytest.mark.usefixtures("hub")
def test_p5_verdicts_follow_the_disk(stage: Stage) -> None:
    store(stage, TARGET)
    pick(stage, TARGET, "")
    assert "Not on this disk" in candidate(stage, ASSISTANT)
    store(stage, ASSISTANT)
    assert "padded vocabulary differs" in candidate(stage, ASSISTANT)
    assert "Not on this disk" not in candidate(stage, ASSISTANT)


@pytest.mark.usefixtures("hub")
def test_h6_what_does_not_fit_is_not_loaded_and_the_remedy_is_a_button(stage: Stage) -> None:
    store(stage, TARGET, ASSISTANT)
    with showcase.memory_of(12 * GB):
        pick(stage, TARGET, ASSISTANT)
        assert "Does not fit" in stage.words()
        assert not stage.button("Load this pair").isEnabled()
        stage.button("Take the target in int8").click()
        stage.settle()
        assert "Fits: " in stage.words()
        stage.button("Load this pair").click()
    assert stage.engine.loads[-1].target == ModelSpec(TARGET, COMMIT, weights="int8")


@pytest.mark.usefixtures("hub")
def test_a_loaded_pair_is_kept_shown_in_use_and_loaded_again_at_the_next_start(stage: Stage) -> None:
    store(stage, TARGET, ASSISTANT)
    pick(stage, TARGET, ASSISTANT)
    stage.button("Load this pair").click()
    wanted = PairSpec(ModelSpec(TARGET, COMMIT), ModelSpec(ASSISTANT, COMMIT))
    assert stage.engine.loads[-1] == wanted
    stage.button("Cancel loading").click()
    assert stage.engine.stops == 1
    stage.engine.worker.loaded.emit(replace(PAIR, target="Qwen2.5-7B-Instruct"))
    assert stage.window.chat_page.isVisible()
    stage.open("library")
    assert stage.words().count("In use") == 2
    assert not stage.button("Delete").isEnabled()
    assert type(stage.controllers.shelf)(stage.folder / "models.json").pair == wanted


@pytest.mark.usefixtures("hub")
def test_what_cannot_work_here_is_greyed_out_with_its_reason(stage: Stage) -> None:
    store(stage, TARGET)
    pick(stage, TARGET, "")
    box = stage.control("Target device", QComboBox)
    stage.wait_for(lambda: box.count() > 1)
    offered = {box.itemText(place): box.model().item(place).isEnabled() for place in range(box.count())}
    refused = next(words for words, enabled in offered.items() if words.startswith("NVIDIA"))
    assert not offered[refused] and "this machine has no NVIDIA graphics card" in refused
    assert offered["CPU"]


def test_p10_the_badge_says_why_nothing_is_drafted(stage: Stage) -> None:
    off = "memory ran out over SmolLM2-135M-Instruct"
    stage.engine.worker.loaded.emit(replace(PAIR, assistant=None, assistant_off=off))
    assert f"Off because {off}" in stage.words()
    stage.engine.worker.loaded.emit(PAIR)
    assert "Idle" in stage.words()
    stage.ask("Hello?")
    assert "Active" in stage.words()


def test_p10_an_assistant_that_is_let_go_while_writing_shows_at_once(stage: Stage) -> None:
    stage.engine.worker.loaded.emit(PAIR)
    stage.ask("Hello?")
    off = "memory ran out while writing"
    stage.engine.worker.pair_changed.emit(replace(PAIR, assistant=None, assistant_off=off))
    assert f"Off because {off}" in stage.words()
    assert "Starter assistant" not in stage.words()
    stage.answer(BICYCLE)
    stage.ask("Go on.")
    assert stage.engine.requests[-1].draft.drafter == "none"
    box = stage.control("Drafter", QComboBox)
    box.setCurrentIndex(box.findData("hybrid"))
    stage.answer(BICYCLE)
    stage.ask("Go on.")
    assert stage.engine.requests[-1].draft.drafter == "lookup"


def test_acceptance_is_measured_for_the_next_prediction(stage: Stage) -> None:
    stage.engine.worker.loaded.emit(PAIR)
    stage.ask("How does a bicycle stay upright?")
    stage.answer(BICYCLE)
    measured = stage.controllers.pair._measurements.of("starter", "starter")
    assert measured is not None and 0 < measured.accepted <= measured.judged


# The way to the Hub


def test_a_token_is_checked_masked_and_never_logged(
    stage: Stage, hub: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stage.open("connection")
    assert "Gated and private models need one" in stage.words()
    for given, words in (("secret", "This is no access token"), ("hf_wrong_token_000", "does not accept")):
        stage.control("Access token", QLineEdit).setText(given)
        stage.button("Keep").click()
        stage.settle()
        assert words in stage.words()
    stage.control("Access token", QLineEdit).setText(ACCESS)
    stage.button("Keep").click()
    stage.settle()
    assert f"••••{ACCESS[-4:]}" in stage.words()
    shown = stage.words() + "".join(each.text() for each in stage.window.findChildren(QLineEdit))
    assert ACCESS not in shown + caplog.text
    stage.button("Forget it").click()
    stage.settle()
    assert "Gated and private models need one" in stage.words()


def test_h4_settings_hold_at_once_and_bad_ones_are_not_kept(stage: Stage, hub: Hub) -> None:
    stage.open("connection")
    field = stage.control("Certificates", QLineEdit)
    field.setText("/nowhere/company.pem")
    field.editingFinished.emit()
    assert "cannot be used" in stage.words() and field.text() == ""
    with hub_server.serving() as mirror:
        mirror.repos["lab/mirrored"] = Repo({"config.json": b"{}"})
        address = stage.control("Hub address", QLineEdit)
        address.setText(mirror.url)
        address.editingFinished.emit()
        stage.open("models")
        assert [each.partition(",")[0] for each in found(stage)] == ["lab/mirrored"]
