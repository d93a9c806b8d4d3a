"""All controllers of the window, made and connected in one place."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from app.models.measured import Measurements
from app.models.shelf import Shelf
from app.settings import SettingsFile
from app.ui.chat_controller import ChatController
from app.ui.connection_controller import ConnectionController
from app.ui.main_window import MainWindow
from app.ui.model_controller import ModelController
from app.ui.models_controller import ModelsController
from app.ui.pair_controller import PairController
from app.ui.search_controller import SearchController
from app.workers.engine import Engine
from app.workers.tasks import Tasks


class Controllers(QObject):
    """`folder` is the program's data folder."""

    def __init__(self, window: MainWindow, engine: Engine, settings: SettingsFile, folder: Path) -> None:
        super().__init__(window)
        self.tasks = Tasks(4)
        self.shelf = Shelf(folder / "models.json")
        self.chat = ChatController(window, engine, settings)
        self.models = ModelsController(window, self.tasks, settings, self.shelf, folder)
        self.search = SearchController(window, self.models, self.tasks, folder)
        self.model = ModelController(window, self.models, self.tasks, self.shelf, folder)
        measurements = Measurements(folder / "measured.json")
        self.pair = PairController(
            window, self.chat, self.models, self.tasks, self.shelf, measurements, folder
        )
        self.connection = ConnectionController(window, self.models, self.tasks, settings)

    def begin(self) -> None:
        """Loads the last pair, and goes on with downloads that were not at their end."""
        self.chat.load_pair(self.shelf.pair, self.models.cache)
        self.models.start()

    def shut_down(self) -> None:
        """Ends all work beside the window but the engine's; may be called twice."""
        self.models.queue.shut_down()
        self.tasks.shut_down()
