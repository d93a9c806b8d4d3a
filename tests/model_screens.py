"""The pages about models, in every state: for tests/screens.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QComboBox, QLineEdit

from app.errors import UserFacingError
from app.hub.entries import DownloadProgress, Plan, RepoFile
from app.records import ModelSpec, PairSpec
from app.ui.theme import DARK, LIGHT, Theme
from app.workers.downloads import Item, State
from tests.helpers import showcase
from tests.helpers.fake_engine import PAIR
from tests.helpers.hub_server import COMMIT, Fault
from tests.helpers.stage import SMALL, WIDE, Stage

LARGE, DRAFTER = "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"
HUGE = "Qwen/Qwen2.5-72B-Instruct"


def online(stage: Stage) -> None:
    assert stage.hub is not None
    showcase.fill(stage.hub)
    stage.connect_to(stage.hub)
    stage.engine.worker.loaded.emit(PAIR)


def found(stage: Stage) -> None:
    online(stage)
    showcase.store(stage.folder / "cache", (DRAFTER,))
    stage.open("models")


def nothing_found(stage: Stage) -> None:
    found(stage)
    stage.window.models_page.set_text("a name that nobody bears")
    stage.settle()


def searching(stage: Stage) -> None:
    online(stage)
    stage.hub.faults["/api/models"] = Fault(stall=2)  # type: ignore[union-attr]
    stage.window.show_page("models")


def search_fails(stage: Stage) -> None:
    online(stage)
    stage.hub.faults["/api/models"] = Fault(status=500)  # type: ignore[union-attr]
    stage.open("models")


def offline(stage: Stage) -> None:
    showcase.store(stage.folder / "cache")
    stage.engine.worker.loaded.emit(PAIR)
    stage.open("models")


def look(stage: Stage, repo: str) -> None:
    found(stage)
    if stage.window.models_page.view.rows.place(repo) is None:
        stage.control("Task", QComboBox).setCurrentIndex(1)
        stage.window.models_page.set_text(repo)
        stage.settle()
    stage.look_at(repo)


def ggufs(stage: Stage) -> None:
    look(stage, "bartowski/Qwen2.5-7B-Instruct-GGUF")


def consent(stage: Stage, kind: str) -> None:
    look(stage, "hedgehog-lab/hedgehog-1b" if kind == "code" else "old-lab/story-writer-800m")
    stage.window.models_page.model.consent_requested.emit(kind)


def pair(stage: Stage, target: str = LARGE, assistant: str = DRAFTER) -> None:
    online(stage)
    showcase.store(stage.folder / "cache")
    stage.controllers.pair._pair = PairSpec(
        ModelSpec(target), ModelSpec(assistant)
    )  # not the starter, to be quick
    stage.open("models")
    stage.open("pair")


def pair_in_4_bits(stage: Stage) -> None:
    pair(stage)
    stage.window.pair_page.target_held.emit("weights", "nf4")
    stage.settle()


def pair_loading(stage: Stage) -> None:
    pair(stage)
    stage.button("Load").click()


def pair_dropped(stage: Stage) -> None:
    stage.engine.worker.loaded.emit(
        replace(PAIR, assistant=None, assistant_off="memory ran out over SmolLM2-135M-Instruct")
    )


def downloads(stage: Stage) -> None:
    online(stage)
    queue = stage.controllers.models.queue
    states: list[tuple[str, State, float, UserFacingError | None]] = [
        (LARGE, "running", 0.43, None),
        ("Qwen/Qwen2.5-1.5B-Instruct", "paused", 0.71, None),
        (
            "meta-llama/Llama-3.2-1B-Instruct",
            "failed",
            0.0,
            UserFacingError(
                "Llama-3.2-1B-Instruct is gated, and you have not been let in yet.",
                "Its owner gives access one by one.",
                "Ask for it at huggingface.co/meta-llama/Llama-3.2-1B-Instruct, then try again.",
            ),
        ),
        ("HuggingFaceTB/SmolLM2-1.7B-Instruct", "waiting", 0.0, None),
        (DRAFTER, "done", 1.0, None),
    ]
    queue._set(tuple(_item(*each) for each in states))
    stage.window.show_page("downloads")


def _item(repo: str, state: State, share: float, error: UserFacingError | None) -> Item:
    size = showcase.BYTES_TOLD * showcase.MODELS[repo].parameters
    name = "model.safetensors"
    plan = Plan(repo, COMMIT, "main", (RepoFile(name, size, "0" * 64, large=True),))
    done = int(share * size)
    progress = DownloadProgress(name, done, size, done, size, 38e6)
    return Item(plan, state, progress if share else None, error)


def no_downloads(stage: Stage) -> None:
    stage.engine.worker.loaded.emit(PAIR)
    stage.window.show_page("downloads")


def library(stage: Stage) -> None:
    stage.engine.worker.loaded.emit(PAIR)
    showcase.store(stage.folder / "cache", broken="hedgehog-lab/hedgehog-1b")
    stage.controllers.shelf.keep_pair(PairSpec(ModelSpec(LARGE), ModelSpec(DRAFTER)))
    stage.controllers.shelf.add("/home/ada/models/own-finetune")
    stage.controllers.models.show_used(frozenset((LARGE, DRAFTER)), {})
    stage.open("library")


def empty_library(stage: Stage) -> None:
    stage.engine.worker.loaded.emit(PAIR)
    stage.open("library")


def delete(stage: Stage) -> None:
    library(stage)
    stage.window.library_page.delete_requested.emit("state-spaces/mamba-1.4b-hf")


def connection(stage: Stage) -> None:
    stage.engine.worker.loaded.emit(PAIR)
    stage.open("connection")


def bad_token(stage: Stage) -> None:
    connection(stage)
    stage.control("Access token", QLineEdit).setText("secret")
    stage.button("Keep").click()
    stage.settle()


Screen = tuple[Callable[[Stage], None], tuple[tuple[Theme, QSize], ...]]
EVERYWHERE = ((LIGHT, WIDE), (DARK, WIDE), (LIGHT, SMALL), (DARK, SMALL))
BOTH = ((LIGHT, WIDE), (DARK, SMALL))

MODEL_SCREENS: dict[str, Screen] = {
    "models": (found, EVERYWHERE),
    "models_searching": (searching, ((LIGHT, WIDE),)),
    "models_nothing": (nothing_found, ((LIGHT, WIDE),)),
    "models_error": (search_fails, BOTH),
    "models_offline": (offline, BOTH),
    "model": (lambda stage: look(stage, LARGE), EVERYWHERE),
    "model_here": (lambda stage: look(stage, DRAFTER), BOTH),
    "model_too_large": (lambda stage: look(stage, HUGE), BOTH),
    "model_gated": (lambda stage: look(stage, "meta-llama/Llama-3.2-1B-Instruct"), BOTH),
    "model_refused": (lambda stage: look(stage, "FacebookAI/xlm-roberta-base"), ((LIGHT, WIDE),)),
    "model_ggufs": (ggufs, BOTH),
    "model_own_code": (lambda stage: look(stage, "hedgehog-lab/hedgehog-1b"), BOTH),
    "consent_code": (lambda stage: consent(stage, "code"), BOTH),
    "consent_pickle": (lambda stage: consent(stage, "pickle"), ((LIGHT, WIDE),)),
    "pair": (pair, EVERYWHERE),
    "pair_refused": (lambda stage: pair(stage, assistant="FacebookAI/xlm-roberta-base"), BOTH),
    "pair_too_large": (lambda stage: pair(stage, HUGE), BOTH),
    "pair_to_download": (lambda stage: pair(stage, "Qwen/Qwen2.5-1.5B-Instruct"), ((LIGHT, WIDE),)),
    "pair_in_4_bits": (pair_in_4_bits, ((LIGHT, WIDE), (LIGHT, SMALL))),
    "pair_loading": (pair_loading, ((LIGHT, WIDE),)),
    "pair_dropped": (pair_dropped, ((LIGHT, WIDE),)),
    "downloads": (downloads, EVERYWHERE),
    "downloads_empty": (no_downloads, ((LIGHT, WIDE),)),
    "library": (library, EVERYWHERE),
    "library_empty": (empty_library, ((LIGHT, WIDE),)),
    "delete": (delete, ((DARK, WIDE),)),
    "connection": (connection, EVERYWHERE),
    "connection_error": (bad_token, BOTH),
}
