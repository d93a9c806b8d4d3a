"""A bug of ours: says so, and offers a report without private words to copy."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.ui.theme import named


class CrashDialog(QDialog):
    """Shows the report that was also written to the log."""

    def __init__(self, report: str, log_path: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Tandem: something went wrong")
        self.resize(640, 420)
        title = named(QLabel("Something went wrong inside Tandem"), "errorTitle")
        words = QLabel(
            "This is a mistake in the program, not yours. The report below holds no messages, no tokens and no "
            f"personal folders; copying it into a bug report helps. It is in {log_path}, too.",
            wordWrap=True,
        )
        self._report = QPlainTextEdit(report, readOnly=True)
        self._report.setAccessibleName("Report")
        self._report.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        copy = QPushButton("Copy report")
        copy.clicked.connect(self._copy)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(copy, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 24)
        layout.setSpacing(12)
        for part in (title, words, self._report, buttons):
            layout.addWidget(part)

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._report.toPlainText())
