"""What happens in the pair picker: a choice becomes a verdict, an estimate and a promise, and then a loaded pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Slot

from app.engine.stats import Statistics
from app.errors import Cancelled, UserFacingError
from app.models.finder import Judged, candidates
from app.models.measured import Measurements
from app.models.shelf import Shelf
from app.models.speed import promise
from app.records import ModelSpec, PairSpec, Progress, Weights
from app.ui.chat_controller import ChatController
from app.ui.main_window import MainWindow
from app.ui.models_controller import ModelsController, rooms_of
from app.ui.pair_rows import assistant_rows, target_rows
from app.ui.pair_side import WAYS, Choice
from app.workers import lookups
from app.workers.lookups import Disk, PairLook
from app.workers.tasks import Task, Tasks

DEVICES = {
    "auto": "Automatic device",
    "cpu": "CPU",
    "mps": "Apple graphics processor",
    "cuda": "NVIDIA graphics card",
    "offload": "Spread over memory and disk",
}
AT_FULL_SIZE = "A GGUF file is loaded at its full size."


class PairController(QObject):
    def __init__(
        self,
        window: MainWindow,
        chat: ChatController,
        models: ModelsController,
        tasks: Tasks,
        shelf: Shelf,
        measurements: Measurements,
        data: Path,
    ) -> None:
        super().__init__(window)
        self._window, self._page, self._chat, self._models = window, window.pair_page, chat, models
        self._tasks, self._shelf, self._measurements, self._data = tasks, shelf, measurements, data
        self._pair = shelf.pair
        self._others: dict[str, ModelSpec] = {}  # chosen elsewhere, perhaps not on this disk
        self._free = 0
        self._devices: Mapping[str, Mapping[Weights, str]] = {}
        self._asked_devices = False
        self._look: PairLook | None = None
        self._looking: Task | None = None
        self._judged: Mapping[str, Judged] = {}
        self._judging: Task | None = None
        self._loading = False
        self._open = False
        self._connect()

    def _connect(self) -> None:
        page, chat, models = self._page, self._chat, self._models
        page.target_chosen.connect(self._choose_target)
        page.assistant_chosen.connect(self._choose_assistant)
        page.target_held.connect(self._hold_target)
        page.assistant_held.connect(self._hold_assistant)
        page.context_chosen.connect(self._choose_context)
        page.load_requested.connect(self._load)
        page.cancel_requested.connect(chat.cancel_loading)
        page.download_requested.connect(self._download)
        page.remedy_requested.connect(self._take_remedy)
        page.add_requested.connect(models.add_local)
        page.message_bar.action_requested.connect(self._begin_look)
        models.use_requested.connect(self._use)
        models.disk_changed.connect(self._take_disk)
        chat.pair_loaded.connect(self._take_pair)
        chat.pair_failed.connect(self._fail_pair)
        chat.reply_counted.connect(self._measure)
        self._window.page_shown.connect(self._enter)

    @Slot(str)
    def _enter(self, page: str) -> None:
        self._open = page == "pair"
        if self._open:
            if not self._asked_devices:
                self._asked_devices = True
                self._tasks.start(lookups.find_devices).done.connect(self._take_devices)
            self._refresh()

    @Slot(object)
    def _take_devices(self, devices: Mapping[str, Mapping[Weights, str]]) -> None:
        self._devices = devices
        self._show_held()

    @Slot(object)
    def _take_disk(self, disk: Disk) -> None:
        """Verdicts are not kept over a change of the disk (P5)."""
        self._free = disk.free
        if self._open:
            self._refresh()

    # Choosing

    @Slot(str)
    def _choose_target(self, key: str) -> None:
        self._set(replace(self._pair, target=self._spec(key)))

    @Slot(str)
    def _choose_assistant(self, key: str) -> None:
        self._set(replace(self._pair, assistant=self._spec(key) if key else None), judge=False)

    @Slot(str, object)
    def _use(self, role: str, spec: ModelSpec) -> None:
        """A model that was chosen on another page."""
        self._others[spec.key] = spec
        pair = replace(self._pair, target=spec) if role == "target" else replace(self._pair, assistant=spec)
        self._pair = pair
        self._window.show_page("pair")

    @Slot(str, object)
    def _hold_target(self, field: str, value: object) -> None:
        self._set(replace(self._pair, target=self._held(self._pair.target, {field: value})))

    @Slot(str, object)
    def _hold_assistant(self, field: str, value: object) -> None:
        if self._pair.assistant is not None:
            assistant = self._held(self._pair.assistant, {field: value})
            self._set(replace(self._pair, assistant=assistant), judge=False)

    def _held(self, spec: ModelSpec, change: Mapping[str, Any]) -> ModelSpec:
        """Held in another way; weights that the chosen device does not take become automatic."""
        spec = replace(spec, **change)
        impossible = self._devices.get(spec.device, {}).get(spec.weights)
        return replace(spec, weights="auto") if impossible else spec

    @Slot(int)
    def _choose_context(self, tokens: int) -> None:
        self._set(replace(self._pair, context=tokens))

    @Slot()
    def _take_remedy(self) -> None:
        if self._look is not None and self._look.remedy is not None:
            remedy = self._look.remedy
            self._set(replace(self._pair, target=remedy.target, assistant=remedy.assistant))

    def _spec(self, key: str) -> ModelSpec:
        return self._models.here().get(key) or self._others.get(key) or ModelSpec(key)

    def _set(self, pair: PairSpec, judge: bool = True) -> None:
        self._pair = pair
        self._show_held()
        self._begin_look()
        if judge:
            self._begin_judging()
        self._show_rows()

    def _refresh(self) -> None:
        """Everything anew; what has arrived since it was chosen is taken from this disk."""
        here = self._models.here()
        self._pair = replace(
            self._pair,
            target=_arrived(self._pair.target, here),
            assistant=self._pair.assistant and _arrived(self._pair.assistant, here),
        )
        self._page.show_context(self._pair.context)
        self._set(self._pair)

    # Looking

    @Slot()
    def _begin_look(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._look = None
        self._page.message_bar.hide()
        self._page.show_verdict("Looking at both …" if self._pair.assistant else "Looking at it …", (), False)
        self._page.show_promise("", "")
        self._page.show_rooms(())
        self._page.show_remedy("")
        self._show_actions()
        self._looking = self._tasks.start(
            partial(
                lookups.look_at_pair,
                self._models.connection(),
                self._pair.target,
                self._pair.assistant,
                self._data,
                self._pair.context,
                self._chat.held,
            )
        )
        self._looking.progressed.connect(self._show_progress)
        self._looking.done.connect(self._show_look)
        self._looking.failed.connect(self._fail_look)

    @Slot(object)
    def _show_progress(self, progress: Progress) -> None:
        self._page.show_verdict(f"{progress.message} …", (), False)

    @Slot(object)
    def _fail_look(self, error: UserFacingError) -> None:
        self._looking = None
        self._page.show_verdict("", (), False)
        self._page.message_bar.show_error(error, "Try again")

    @Slot(object)
    def _show_look(self, look: PairLook) -> None:
        self._looking, self._look = None, look
        refused = look.target.refused or (look.verdict.reason if _refuses(look) and look.verdict else "")
        words = look.verdict.reason if look.verdict else f"{look.target.name} writes without an assistant."
        self._page.show_verdict(refused or words, tuple(_notes(look)), bool(refused))
        if look.room is not None:
            self._page.show_rooms(rooms_of(look.room))
        if look.remedy is not None:
            self._page.show_remedy(look.remedy.words)
        if look.verdict is not None and not refused and self._pair.assistant is not None:
            measured = self._measurements.of(self._pair.target.key, self._pair.assistant.key)
            if (expected := promise(look.cost, look.verdict.kind, measured)) is not None:
                self._page.show_promise(f"Expect {expected.words}", expected.assumptions)
        for each in (look.target, look.assistant):
            if each is not None and each.obstacle is not None:
                self._page.message_bar.show_error(each.obstacle, "Try again")
        self._show_actions()

    def _show_actions(self) -> None:
        look = self._look
        missing = [each.name for each in _absent(look)] if look and not _refuses(look) else []
        fits = look is not None and look.room is not None and look.room.fits
        may_load = look is not None and not missing and not _refuses(look) and fits
        loaded = "This pair is loaded" if self._chat.loaded == self._pair else ""
        self._page.show_actions(loaded, may_load, self._loading, missing)

    def _begin_judging(self) -> None:
        if self._judging is not None:
            self._judging.cancel()
        self._judged = {}
        self._judging = self._tasks.start(
            partial(
                lookups.judge_candidates,
                self._models.connection(),
                self._pair.target,
                self._models.here(),
                self._data,
                self._pair.context,
                self._chat.held,
            )
        )
        self._judging.progressed.connect(self._take_judged)

    @Slot(object)
    def _take_judged(self, judged: Mapping[str, Judged]) -> None:
        self._judged = judged
        self._show_rows()

    # Showing

    def _show_rows(self) -> None:
        here, pair = self._models.here(), self._pair
        chosen = [pair.target.key, *([pair.assistant.key] if pair.assistant else [])]
        others = [each for each in dict.fromkeys([*self._others, *chosen]) if each not in here]
        targets = target_rows(here, self._models.sizes(), others)
        self._page.target.show_rows(list(targets), pair.target.key)
        found = candidates(
            pair.target.key,
            self._free,
            here.keys(),
            self._measurements,
            self._judged,
            pair.target.weights,
            pair.context,
        )
        rows = list(assistant_rows(found, here, others))
        self._page.assistant.show_rows(rows, pair.assistant.key if pair.assistant else "")

    def _show_held(self) -> None:
        for side, spec in (
            (self._page.target, self._pair.target),
            (self._page.assistant, self._pair.assistant),
        ):
            if spec is None:
                side.show_held(None, (), ())
                continue
            reasons = self._devices.get(spec.device, {})
            weights = [
                Choice(way, words, _why_not_gguf(spec, way) or reasons.get(way, ""))
                for way, words in WAYS.items()
            ]
            devices = [
                Choice(name, _device_words(name), ways.get("auto", ""))
                for name, ways in (self._devices or {"auto": {}}).items()
            ]
            side.show_held(spec, weights, devices)

    # Loading

    @Slot()
    def _load(self) -> None:
        self._loading = True
        self._page.message_bar.hide()
        self._chat.load_pair(self._pair, self._models.cache)
        self._show_actions()

    @Slot()
    def _download(self) -> None:
        try:
            for each in _absent(self._look) if self._look else ():
                self._models.download(each.plan())
        except UserFacingError as error:
            self._page.message_bar.show_error(error)

    @Slot(object)
    def _take_pair(self, pair: PairSpec) -> None:
        self._shelf.keep_pair(pair)
        keys = [pair.target.source, *([pair.assistant.source] if pair.assistant else [])]
        self._models.show_used(frozenset(keys), self._chat.held)
        if self._loading and self._open:
            self._window.show_page("chat")
        self._loading = False
        self._show_actions()

    @Slot(object)
    def _fail_pair(self, error: Exception) -> None:
        self._loading = False
        self._models.show_used(frozenset(), {})
        if isinstance(error, UserFacingError) and not isinstance(error, Cancelled):
            self._page.message_bar.show_error(error)
        self._show_actions()

    @Slot(object)
    def _measure(self, stats: Statistics) -> None:
        """What the assistant's candidates came to, for the next prediction."""
        pair, counted = self._chat.loaded, stats.by_source.get("assistant")
        if pair is not None and pair.assistant is not None and counted is not None:
            self._measurements.add(pair.target.key, pair.assistant.key, counted.judged, counted.accepted)


def _arrived(spec: ModelSpec, here: Mapping[str, ModelSpec]) -> ModelSpec:
    """The same model as it is on this disk: its commit, and what it may do there."""
    stored = here.get(spec.key)
    if stored is None or spec.revision not in ("main", stored.revision):
        return spec
    return replace(spec, revision=stored.revision, own_code=stored.own_code, pickle=stored.pickle)


def _absent(look: PairLook) -> list[Any]:
    """The models that have to be fetched first and can be."""
    both = {each.spec.key: each for each in (look.target, look.assistant) if each is not None}
    return [each for each in both.values() if each.details is not None and each.obstacle is None]


def _refuses(look: PairLook) -> bool:
    if look.target.refused:
        return True
    return look.verdict is not None and look.verdict.kind == "refused"


def _notes(look: PairLook) -> Iterator[str]:
    yield from look.verdict.notes if look.verdict else ()
    for each in (look.target, look.assistant):
        if each is not None and each.spec.key.endswith(".gguf"):
            yield f"{each.name}: {AT_FULL_SIZE[0].lower()}{AT_FULL_SIZE[1:]}"
        if each is not None and each.unknown and look.verdict is None:
            yield each.unknown


def _why_not_gguf(spec: ModelSpec, way: str) -> str:
    return AT_FULL_SIZE if spec.key.endswith(".gguf") and way in ("int8", "nf4", "fp4") else ""


def _device_words(name: str) -> str:
    kind, _, index = name.partition(":")
    return f"{DEVICES.get(kind, kind)} {index}".strip()
