"""What happens on the page of one model: what is known of it becomes words, a bar and buttons."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Slot

from app.errors import UserFacingError
from app.models.shelf import Shelf
from app.records import ModelSpec, Progress, Weights
from app.ui.consent_dialog import ConsentDialog
from app.ui.main_window import MainWindow
from app.ui.models_controller import CONTEXT, ModelsController, rooms_of
from app.words import size
from app.workers import lookups
from app.workers.lookups import Look
from app.workers.tasks import Task, Tasks


class ModelController(QObject):
    def __init__(
        self, window: MainWindow, models: ModelsController, tasks: Tasks, shelf: Shelf, data: Path
    ) -> None:
        super().__init__(window)
        self._window, self._page, self._view = window, window.models_page, window.models_page.model
        self._models, self._tasks, self._shelf, self._data = models, tasks, shelf, data
        self._looking: Task | None = None
        self._look: Look | None = None
        self._spec = ModelSpec("")
        self._way: Weights = "auto"
        self._dialog: ConsentDialog | None = None
        view = self._view
        self._page.entry_chosen.connect(self.look_at)
        view.download_requested.connect(self._download)
        view.use_requested.connect(self._use)
        view.revision_chosen.connect(self._choose_revision)
        view.file_requested.connect(self._choose_file)
        view.way_chosen.connect(self._choose_way)
        view.consent_requested.connect(self._ask_consent)
        view.again_requested.connect(self._fetch_again)
        view.retry_requested.connect(self._look_again)
        models.disk_changed.connect(self._show_actions)

    @Slot(str)
    def look_at(self, repo: str) -> None:
        self._spec = ModelSpec(repo)
        self._look_again()

    @Slot()
    def _look_again(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._look = None
        self._page.show_model(self._spec.source)
        self._looking = self._tasks.start(
            partial(
                lookups.look_at, self._models.connection(), self._spec, self._data, CONTEXT, self._models.held
            )
        )
        self._looking.progressed.connect(self._show_progress)
        self._looking.done.connect(self._show_look)
        self._looking.failed.connect(self._fail_look)

    @Slot(object)
    def _show_progress(self, progress: Progress) -> None:
        """Also the size of what is read, where it is large."""
        self._view.show_busy(progress.message)

    @Slot(object)
    def _fail_look(self, error: UserFacingError) -> None:
        self._looking = None
        self._view.show_verdict("", False)
        self._view.message_bar.show_error(error, "Try again")

    @Slot(object)
    def _show_look(self, look: Look) -> None:
        self._looking, self._look = None, look
        found, view = look.found, self._view
        ggufs: list[str] = []
        if found.details is not None:
            ggufs = [each.name for each in found.details.files if each.name.endswith(".gguf")]
            names = [each.name for each in found.files] or ggufs
            view.show_details(found.details, names, found.context, self._spec.revision)
            view.show_ggufs(ggufs, self._spec.file)
        if found.obstacle is None:
            view.show_verdict(found.refused or found.unknown, bool(found.refused))
        elif ggufs:
            view.show_verdict("Choose one of its GGUF files.", False)
        else:
            view.show_verdict("", False)
            view.message_bar.show_error(found.obstacle)
        view.show_consent(self._consent("code"), self._consent("pickle"))
        view.show_ways(list(look.ways), self._way)
        self._choose_way(self._way if self._way in look.ways else next(iter(look.ways), "auto"))
        view.show_card(look.card)
        self._show_actions()

    @Slot()
    def _show_actions(self) -> None:
        if self._look is None:
            return
        found = self._look.found
        here = self._is_here()
        may = found.details is not None and found.obstacle is None and not found.refused
        words = ""
        if may and not here:
            words = "See the download" if self._is_coming() else f"Download, {size(found.size)}"
        self._view.show_actions(words, here, not found.refused and (here or found.seen is not None))
        free = here and found.details is not None and found.spec.source not in self._models.used
        self._view.show_again([each.name for each in found.files] if free else ())

    def _is_here(self) -> bool:
        if self._look is None:
            return False
        details = self._look.found.details
        return any(
            each.repo == self._spec.source
            and not each.missing
            and (details is None or each.commit == details.commit)
            for each in self._models.stored
        )

    def _is_coming(self) -> bool:
        return any(each.plan.repo == self._spec.source for each in self._models.unfinished())

    def _consent(self, kind: str) -> bool | None:
        """Whether it is given; None where there is nothing to consent to."""
        if self._look is None or self._look.found.details is None:
            return None
        details = self._look.found.details
        names = [each.name for each in details.files]
        if kind == "code":
            needed = any(each.endswith(".py") for each in names) and (
                self._spec.own_code or "program code" in self._look.found.refused
            )
        else:
            has = any(each.endswith(".bin") for each in names)
            needed = has and not any(each.endswith((".safetensors", ".gguf")) for each in names)
        return self._shelf.allows(kind, self._spec.source, details.commit) if needed else None

    @Slot(str)
    def _choose_way(self, way: Weights) -> None:
        if self._look is not None and way in self._look.ways:
            self._way = way
            self._view.show_room(rooms_of(self._look.ways[way])[0])
        else:
            self._view.show_room(None)

    @Slot(str)
    def _choose_revision(self, revision: str) -> None:
        self._spec = replace(self._spec, revision=revision)
        self._look_again()

    @Slot(str)
    def _choose_file(self, name: str) -> None:
        self._spec = replace(self._spec, file=name)
        self._look_again()

    @Slot(str)
    def _ask_consent(self, kind: str) -> None:
        """Taking a consent back needs no question."""
        if self._look is None or self._look.found.details is None:
            return
        commit = self._look.found.details.commit
        if self._shelf.allows(kind, self._spec.source, commit):
            self._shelf.allow(kind, self._spec.source, commit, False)
            self._apply_consents(commit)
            return
        self._dialog = ConsentDialog(kind, self._spec.source, commit[:12], parent=self._window)
        self._dialog.agreed.connect(self._take_consent)
        self._dialog.open()

    @Slot(str, str)
    def _take_consent(self, kind: str, repo: str) -> None:
        if self._look is not None and self._look.found.details is not None and repo == self._spec.source:
            commit = self._look.found.details.commit
            self._shelf.allow(kind, repo, commit, True)
            self._apply_consents(commit)

    def _apply_consents(self, commit: str) -> None:
        self._spec = self._models.consented(replace(self._spec, revision=commit))
        self._look_again()

    @Slot(str)
    def _use(self, role: str) -> None:
        if self._look is not None:
            details = self._look.found.details
            spec = replace(self._spec, revision=details.commit) if details else self._spec
            self._models.use_requested.emit(role, self._models.consented(spec))

    @Slot()
    def _download(self) -> None:
        if self._look is None:
            return
        if self._is_coming():
            self._window.show_page("downloads")
            return
        try:
            self._models.download(self._look.found.plan())
        except UserFacingError as error:
            self._view.message_bar.show_error(error)

    @Slot(str)
    def _fetch_again(self, name: str) -> None:
        """One file that is suspected to be damaged, without the rest of its model."""
        if self._look is not None:
            task = self._tasks.start(
                partial(lookups.forget_file, self._models.connection(), self._look.found.plan(), name)
            )
            task.done.connect(self._models.download)
            task.failed.connect(self._view.message_bar.show_error)
