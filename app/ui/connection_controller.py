"""What happens on the page of the Hub: settings hold at once, a token is checked before it is kept."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QFileDialog

from app.errors import UserFacingError
from app.settings import SettingsFile
from app.ui.main_window import MainWindow
from app.ui.models_controller import ModelsController
from app.workers import lookups
from app.workers.tasks import Tasks, Work


class ConnectionController(QObject):
    def __init__(
        self, window: MainWindow, models: ModelsController, tasks: Tasks, settings: SettingsFile
    ) -> None:
        super().__init__(window)
        self._window, self._page = window, window.connection_page
        self._models, self._tasks, self._settings = models, tasks, settings
        self._page.setting_changed.connect(self._change)
        self._page.folder_requested.connect(self._choose_folder)
        self._page.token_given.connect(self._keep_token)
        self._page.token_dropped.connect(self._drop_token)
        window.page_shown.connect(self._enter)

    @Slot(str)
    def _enter(self, page: str) -> None:
        if page == "connection":
            self._run(lookups.masked_token)

    @Slot(str, object)
    def _change(self, key: str, value: object) -> None:
        """A value that cannot be used is not kept, and what holds is shown again."""
        before = self._settings.values[key]
        if value == before:
            return
        try:
            self._settings.set(key, value)
            self._models.connection().apply()
        except UserFacingError as error:
            self._settings.set(key, before)
            self._page.show_values(self._settings.values)
            self._page.message_bar.show_error(error)
            return
        self._page.message_bar.hide()
        self._models.reconnect()

    @Slot()
    def _choose_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self._window, "Where models are to live")
        if folder:
            self._change("models_folder", folder)
            self._page.show_values(self._settings.values)

    @Slot(str)
    def _keep_token(self, token: str) -> None:
        if token:
            self._page.show_busy_token()
            self._run(partial(lookups.keep_token, self._models.connection(), token))

    @Slot()
    def _drop_token(self) -> None:
        self._run(lookups.drop_token)

    def _run(self, work: Work) -> None:
        task = self._tasks.start(work)
        task.done.connect(self._page.show_token)
        task.failed.connect(self._fail_token)

    @Slot(object)
    def _fail_token(self, error: UserFacingError) -> None:
        self._page.message_bar.show_error(error)
        self._tasks.start(lookups.masked_token).done.connect(self._page.show_token)
