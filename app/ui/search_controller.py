"""What happens in the search: a query becomes rows, rows at rest are looked at, offline the disk is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Slot

from app.errors import UserFacingError
from app.hub.entries import Glance, ModelEntry, Query, StoredModel, by_size
from app.ui.main_window import MainWindow
from app.ui.models_controller import ModelsController
from app.workers import lookups
from app.workers.lookups import Disk, Portion
from app.workers.tasks import Task, Tasks

OFFLINE = "Offline: these are the models on this disk."


class SearchController(QObject):
    def __init__(self, window: MainWindow, models: ModelsController, tasks: Tasks, data: Path) -> None:
        super().__init__(window)
        self._page, self._models, self._tasks, self._data = window.models_page, models, tasks, data
        self._query = Query()
        self._entries: dict[str, ModelEntry] = {}
        self._glances: dict[str, Glance] = {}
        self._glancing: dict[str, Task] = {}
        self._rest: Iterator[ModelEntry] | None = None
        self._search: Task | None = None
        self._by_size = False
        page = self._page
        page.query_changed.connect(self._begin_search)
        page.sort_changed.connect(self._sort)
        page.more_requested.connect(self._search_on)
        page.entries_seen.connect(self._glance)
        page.retry_requested.connect(self._search_again)
        models.disk_changed.connect(self._take_disk)
        models.reconnected.connect(self._begin_anew)
        window.page_shown.connect(self._enter)

    @Slot(str)
    def _enter(self, page: str) -> None:
        if page == "models" and not self._entries and self._search is None:
            self._begin_search(self._query)

    @Slot()
    def _begin_anew(self) -> None:
        self._glances.clear()
        self._begin_search(self._query)

    @Slot(object)
    def _take_disk(self, disk: Disk) -> None:
        here = {each.repo for each in disk.stored if not each.missing}
        for repo, entry in self._entries.items():
            self._entries[repo] = replace(entry, present=repo in here)
            self._page.show_again(self._entries[repo], self._glances.get(repo))
        if not self._entries and self._models.connection().is_offline:
            self._show_disk_instead()

    @Slot(object)
    def _begin_search(self, query: Query) -> None:
        self._query = query
        self._cancel_search()
        self._entries, self._rest = {}, None
        if self._models.connection().is_offline:
            self._show_disk_instead()
            return
        self._page.show_searching()
        self._search = self._tasks.start(partial(lookups.begin_search, self._models.connection(), query))
        self._search.done.connect(self._take_portion)
        self._search.failed.connect(self._fail_search)

    @Slot()
    def _search_again(self) -> None:
        self._begin_search(self._query)

    @Slot()
    def _search_on(self) -> None:
        if self._rest is not None and self._search is None:
            self._search = self._tasks.start(partial(lookups.next_portion, self._rest))
            self._search.done.connect(self._take_portion)
            self._search.failed.connect(self._fail_search)

    @Slot(object)
    def _take_portion(self, portion: Portion) -> None:
        self._search, self._rest = None, portion.rest if portion.more else None
        first = not self._entries
        self._entries |= {each.repo: each for each in portion.entries}
        if first or self._by_size:
            self._show_entries()
        else:
            self._page.add_entries(portion.entries, portion.more)

    @Slot(object)
    def _fail_search(self, error: UserFacingError) -> None:
        self._search = None
        if not self._entries:
            self._show_disk_instead()
        self._page.show_error(error)

    @Slot(bool)
    def _sort(self, by_size: bool) -> None:
        if by_size != self._by_size:
            self._by_size = by_size
            if self._entries:
                self._show_entries()

    def _show_entries(self) -> None:
        entries = list(self._entries.values())
        if self._by_size:
            entries = by_size(entries)
        self._page.show_entries(entries, self._glances, self._rest is not None)

    def _show_disk_instead(self) -> None:
        words = self._query.text.strip().lower()
        here = [
            _entry(each) for each in self._models.stored if not each.missing and words in each.repo.lower()
        ]
        self._entries = {each.repo: each for each in here}
        self._page.show_entries(here, {}, False)
        self._page.show_note(OFFLINE if here else "Offline, and nothing like it is on this disk.")

    def _cancel_search(self) -> None:
        for each in (self._search, *self._glancing.values()):
            if each is not None:
                each.cancel()
        self._search = None
        self._glancing.clear()

    @Slot(object)
    def _glance(self, repos: tuple[str, ...]) -> None:
        """Looks closer at the rows in view, and no longer at those that have left it."""
        if self._models.connection().is_offline:
            return
        for repo in set(self._glancing) - set(repos):
            self._glancing.pop(repo).cancel()
        for repo in repos:
            if repo in self._glances or repo in self._glancing or repo not in self._entries:
                continue
            task = self._tasks.start(partial(lookups.glance_at, self._models.connection(), repo, self._data))
            task.done.connect(self._take_glance)
            task.over.connect(self._end_glance)
            self._glancing[repo] = task

    @Slot(object)
    def _end_glance(self, task: Task) -> None:
        """Also after a failure: when the row is in view once more, it is tried once more."""
        self._glancing = {repo: each for repo, each in self._glancing.items() if each is not task}

    @Slot(object)
    def _take_glance(self, glance: Glance) -> None:
        self._glances[glance.repo] = glance
        if glance.repo in self._entries:
            self._page.show_again(self._entries[glance.repo], glance)


def _entry(model: StoredModel) -> ModelEntry:
    names = model.config.get("architectures") or [None]
    return ModelEntry(
        model.repo, 0, 0, None, False, False, None, names[0], None, (), present=True, bytes=model.bytes
    )
