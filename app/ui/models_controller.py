"""What happens among downloads and in the library; the other controllers learn here what is on this disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QFileDialog

from app.errors import UserFacingError
from app.hub.entries import Plan, StoredModel
from app.models.finder import Recommendation
from app.models.shelf import Shelf
from app.records import STARTER, ModelSpec
from app.settings import SettingsFile
from app.ui.consent_dialog import ConsentDialog
from app.ui.main_window import MainWindow
from app.ui.memory_bar import Part, Room
from app.words import size
from app.workers import lookups
from app.workers.downloads import DownloadQueue, Item
from app.workers.lookups import Disk, Look
from app.workers.tasks import Tasks

if TYPE_CHECKING:
    from app.hub.connection import Connection
    from app.models.memory import Estimate

CONTEXT = 4096  # tokens to reckon with
NOTHING_FITS = (
    "No known pair fits the memory that is free now. Close other programs, or search for a small model."
)


class ModelsController(QObject):
    use_requested = Signal(str, object)  # role, ModelSpec
    disk_changed = Signal(object)  # Disk
    reconnected = Signal()

    def __init__(
        self,
        window: MainWindow,
        tasks: Tasks,
        settings: SettingsFile,
        shelf: Shelf,
        data: Path,
    ) -> None:
        super().__init__(window)
        self._window, self._page = window, window.models_page
        self._tasks, self._settings, self._shelf, self._data = tasks, settings, shelf, data
        self.queue = DownloadQueue(data / "downloads.json", self.connection, self)
        self.stored: tuple[StoredModel, ...] = ()
        self.used: frozenset[str] = frozenset()
        self.held: Mapping[str, int] = {}
        self._disk = Disk((), (), 0)
        self._asked_disk = False
        self._dialog: ConsentDialog | None = None
        self._connect()

    def _connect(self) -> None:
        library, downloads = self._window.library_page, self._window.downloads_page
        self._page.advice.chosen.connect(self._take_advice)
        self.queue.changed.connect(self._show_downloads)
        self.queue.arrived.connect(self._take_arrival)
        downloads.pause_requested.connect(self.queue.pause)
        downloads.resume_requested.connect(self.queue.resume)
        downloads.cancel_requested.connect(self.queue.cancel)
        downloads.search_requested.connect(self._open_search)
        library.use_requested.connect(self._use_stored)
        library.delete_requested.connect(self._ask_delete)
        library.forget_requested.connect(self._forget)
        library.repair_requested.connect(self._repair)
        library.add_requested.connect(self.add_local)
        library.move_requested.connect(self._choose_folder)
        self._window.page_shown.connect(self._enter)

    def connection(self) -> Connection:
        """The way to the Hub as the settings have it now."""
        from app.hub.connection import Connection

        values = self._settings.values
        return Connection(
            endpoint=str(values["endpoint"]),
            cache=str(values["models_folder"]),
            proxy=str(values["proxy"]),
            certificates=str(values["certificates"]),
            offline=bool(values["offline"]),
        )

    def start(self) -> None:
        """Once the window is there: goes on with downloads that an earlier run has left."""
        self._show_downloads(self.queue.items)
        self.queue.start()

    @Slot(str)
    def _enter(self, page: str) -> None:
        if page in ("models", "library", "pair") and not self._asked_disk:
            self.read_disk()

    # Downloading

    @Slot(object)
    def download(self, plan: Plan) -> None:
        self.queue.add(plan)
        self._window.show_page("downloads")

    def fetch(self, repo: str) -> None:
        """Looks a repository up and queues what it needs."""
        task = self._tasks.start(
            partial(lookups.look_at, self.connection(), ModelSpec(repo), self._data, CONTEXT, self.held)
        )
        task.done.connect(self._queue_look)
        task.failed.connect(self._fail_fetch)

    @Slot(object)
    def _queue_look(self, look: Look) -> None:
        try:
            self.queue.add(look.found.plan())
        except UserFacingError as error:
            self._fail_fetch(error)

    @Slot(object)
    def _fail_fetch(self, error: UserFacingError) -> None:
        self._window.show_page("models")
        self._page.message_bar.show_error(error)

    @Slot(object)
    def _take_advice(self, pair: Recommendation) -> None:
        here = {each.repo for each in self.stored if not each.missing}
        wanted = [each.repo for each in (pair.target, pair.assistant)]
        for repo in wanted:
            if repo not in here:
                self.fetch(repo)
        if set(wanted) <= here:
            for role, repo in zip(("target", "assistant"), wanted, strict=True):
                self.use_requested.emit(role, replace(self._stored_spec(repo), weights=pair.weights))
        else:
            self._window.show_page("downloads")

    def unfinished(self) -> list[Item]:
        return [each for each in self.queue.items if each.state != "done"]

    @Slot(object)
    def _show_downloads(self, items: tuple[Item, ...]) -> None:
        self._window.downloads_page.show_items(items)
        self._window.show_downloads(len(self.unfinished()))

    @Slot(str)
    def _take_arrival(self, repo: str) -> None:
        self.read_disk()

    def consented(self, spec: ModelSpec) -> ModelSpec:
        """A model pinned to a commit, with what the person allows it."""
        return replace(
            spec,
            own_code=self._shelf.allows("code", spec.source, spec.revision),
            pickle=self._shelf.allows("pickle", spec.source, spec.revision),
        )

    @Slot()
    def _open_search(self) -> None:
        self._window.show_page("models")

    # The disk

    def read_disk(self) -> None:
        self._asked_disk = True
        task = self._tasks.start(partial(lookups.read_disk, self.connection(), self.held))
        task.done.connect(self._take_disk)

    @Slot(object)
    def _take_disk(self, disk: Disk) -> None:
        self._disk, self.stored = disk, disk.stored
        here = frozenset(each.repo for each in disk.stored if not each.missing)
        self._page.advice.show_pairs(disk.advice, here, NOTHING_FITS)
        self._show_library()
        self.disk_changed.emit(self._disk)

    def show_used(self, sources: frozenset[str], held: Mapping[str, int]) -> None:
        """Which models are loaded, and the bytes that they hold of each device."""
        self.used, self.held = sources, held
        self._show_library()

    def _show_library(self) -> None:
        self._window.library_page.show_models(
            self.stored, self._shelf.added, self.used, self.connection().folder
        )

    def here(self) -> dict[str, ModelSpec]:
        """Everything that can be loaded from this disk, by its key."""
        specs = {STARTER: ModelSpec()}
        for each in self.stored:
            for file in () if each.missing else each.ggufs or ("",):
                spec = self.consented(ModelSpec(each.repo, each.commit, file))
                specs.setdefault(spec.key, spec)
        return specs | {source: ModelSpec(source) for source in self._shelf.added}

    def sizes(self) -> dict[str, int]:
        """Bytes of the repositories on this disk."""
        return {each.repo: each.bytes for each in self.stored}

    @property
    def cache(self) -> Path | None:
        """Where models live, if not where all Hugging Face tools keep them."""
        folder = str(self._settings.values["models_folder"])
        return Path(folder).expanduser() if folder else None

    def _stored_spec(self, source: str) -> ModelSpec:
        """The model of that source; of several GGUF files the first."""
        return next((each for each in self.here().values() if each.source == source), ModelSpec(source))

    @Slot(str, str)
    def _use_stored(self, role: str, source: str) -> None:
        self.use_requested.emit(role, self._stored_spec(source))

    @Slot(str)
    def _ask_delete(self, repo: str) -> None:
        whole = sum(each.bytes for each in self.stored if each.repo == repo)
        self._dialog = ConsentDialog("delete", repo, "", size(whole), self._window)
        self._dialog.agreed.connect(self._delete)
        self._dialog.open()

    @Slot(str, str)
    def _delete(self, kind: str, repo: str) -> None:
        task = self._tasks.start(partial(lookups.delete, self.connection(), repo))
        task.done.connect(self._take_deletion)
        task.failed.connect(self._window.library_page.message_bar.show_error)

    @Slot(object)
    def _take_deletion(self, freed: int) -> None:
        self.read_disk()

    @Slot(str)
    def _repair(self, repo: str) -> None:
        self.fetch(repo)
        self._window.show_page("downloads")

    @Slot(str)
    def _forget(self, source: str) -> None:
        self._shelf.drop(source)
        self._show_library()
        self.disk_changed.emit(self._disk)

    @Slot(str)
    def add_local(self, kind: str) -> None:
        if kind == "folder":
            source = QFileDialog.getExistingDirectory(self._window, "A folder with a config.json and weights")
        else:
            source, _ = QFileDialog.getOpenFileName(self._window, "A GGUF file", "", "GGUF (*.gguf)")
        if source:
            self.take_local(source)

    def take_local(self, source: str) -> None:
        """Adds a folder or GGUF file, if it is a model."""
        path = Path(source)
        if not (path / "config.json").is_file() and path.suffix != ".gguf":
            self._window.library_page.message_bar.show_error(
                UserFacingError(
                    f"{path.name} is no model.",
                    "A model's folder holds config.json, weights and a tokenizer.",
                    "Choose the folder that holds them, or a single GGUF file.",
                )
            )
            self._window.show_page("library")
            return
        self._window.library_page.message_bar.hide()
        self._shelf.add(source)
        self._show_library()
        self.disk_changed.emit(self._disk)

    @Slot()
    def _choose_folder(self) -> None:
        self._window.show_page("connection")

    def reconnect(self) -> None:
        """Begins anew after the way to the Hub has changed."""
        self.reconnected.emit()
        self.read_disk()


def rooms_of(found: Estimate) -> list[Room]:
    """A bar for each device that something would lie on."""
    rooms = []
    for device in dict.fromkeys(each.device for each in found.needs):
        needs = [each for each in found.needs if each.device == device]
        parts = [Part(f"{each.name} weights", each.weights + each.copy) for each in needs]
        parts += [Part(f"{each.name} cache", each.cache) for each in needs if each.cache]
        parts.append(Part("work", sum(each.work for each in needs)))
        name = "all memory and the disk" if device == "offload" else device.upper()
        rooms.append(Room(name, tuple(parts), found.room(device), found.fits))
    return rooms
