"""The composition root: builds the objects, connects them, and shuts them down in order."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

from app import __version__
from app.logbook import crash_report, open_log
from app.resources import data_folder, resource
from app.settings import SettingsFile
from app.ui.controllers import Controllers
from app.ui.crash_dialog import CrashDialog
from app.ui.main_window import MainWindow
from app.ui.theme import Appearance
from app.workers.engine import Engine

log = logging.getLogger(__name__)


class Crashes(QObject):
    """Catches what nobody caught, in any thread: into the log, and onto the screen."""

    _happened = Signal(str)

    def __init__(self, log_path: Path) -> None:
        super().__init__()
        self._log_path = log_path
        self._dialog: CrashDialog | None = None
        self._happened.connect(self._show)
        sys.excepthook = self._catch
        threading.excepthook = lambda args: self._catch(args.exc_type, args.exc_value, args.exc_traceback)

    def _catch(
        self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
    ) -> None:
        report = crash_report(kind, error or kind(), trace)
        log.error("unexpected failure\n%s", report)
        self._happened.emit(report)

    @Slot(str)
    def _show(self, report: str) -> None:
        if self._dialog is None or not self._dialog.isVisible():  # one at a time: the first says most
            self._dialog = CrashDialog(report, str(self._log_path))
            self._dialog.open()


class Application(QObject):
    """The running program: window, engine, controllers."""

    def __init__(self, application: QApplication) -> None:
        super().__init__()
        folder = data_folder()
        self.crashes = Crashes(open_log(folder / "log"))
        log.info("Tandem %s starts", __version__)
        settings = SettingsFile(folder / "settings.json")
        self.appearance = Appearance(application)
        self.window = MainWindow(self.appearance.theme, settings.values)
        self.appearance.changed.connect(self.window.take_theme)
        self.engine = Engine(folder / "models")
        self.controllers = Controllers(self.window, self.engine, settings, folder)
        self.window.closing.connect(self.shut_down)
        application.aboutToQuit.connect(self.shut_down)

    def show(self) -> None:
        """Shows the window first; the engine is loaded once it has been painted."""
        self.window.painted.connect(self._begin)
        self.window.show()

    @Slot()
    def _begin(self) -> None:
        self.window.painted.disconnect(self._begin)
        if os.environ.get("TANDEM_STARTUP_PROBE"):  # tests/benchmarks/startup.py times this line
            sys.stdout.write("window visible\n")
            sys.stdout.flush()
            QTimer.singleShot(0, QApplication.quit)
            return
        QTimer.singleShot(0, self.controllers.begin)

    @Slot()
    def shut_down(self) -> None:
        """Ends what runs beside the window, the engine last; may be called twice."""
        self.controllers.shut_down()
        self.engine.shut_down()


def run(arguments: Sequence[str]) -> int:
    """Opens the desktop application and returns its exit status once it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Qt's loop would not let Python see Ctrl+C
    application = QApplication([sys.argv[0], *arguments])
    application.setApplicationName("Tandem")
    application.setApplicationVersion(__version__)
    application.setDesktopFileName("tandem")
    application.setWindowIcon(QIcon(str(resource("icons/tandem.svg"))))
    program = Application(application)
    program.show()
    return application.exec()
