"""The questions that are asked before something cannot be taken back."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPushButton, QVBoxLayout, QWidget

from app.ui.theme import named

WIDTH = 480
WORDS = {
    "code": (
        "Run the program code of {repo}?",
        "This model brings Python code of its own. It runs with all your rights: its author can read, change and "
        "send whatever you can. Read the code on the Hub first, and allow it only if you trust its author.",
        "Allow this code",
    ),
    "pickle": (
        "Read the pickle files of {repo}?",
        "Its weights come as pickles. A pickle is a small program that runs when it is read, with all your rights. "
        "Most models exist as safetensors, which hold numbers and nothing else: look for those first.",
        "Allow these files",
    ),
    "delete": (
        "Delete {repo}?",
        "{size} are removed from this disk. It is gone for every Hugging Face tool, and has to be downloaded again.",
        "Delete",
    ),
}


class ConsentDialog(QDialog):
    """Says what it means; No is what Enter and Escape do."""

    agreed = Signal(str, str)  # kind, repository

    def __init__(
        self, kind: str, repo: str, revision: str, size: str = "", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._kind, self._repo = kind, repo
        title, body, yes = WORDS[kind]
        self.setWindowTitle("Tandem")
        self.setModal(True)
        heading = named(
            QLabel(title.format(repo=repo), wordWrap=True, textFormat=Qt.TextFormat.PlainText), "title"
        )
        words = QLabel(body.format(repo=repo, size=size), wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 16)
        layout.setSpacing(12)
        layout.addWidget(heading)
        layout.addWidget(words)
        if revision:
            told = f"This holds for revision {revision} alone, and can be taken back on the model's page."
            layout.addWidget(named(QLabel(told, wordWrap=True), "muted"))
        buttons = QDialogButtonBox()
        no = QPushButton("No")
        no.setDefault(True)
        buttons.addButton(no, QDialogButtonBox.ButtonRole.RejectRole)
        buttons.addButton(QPushButton(yes), QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self._agree)
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)
        self.setFixedSize(WIDTH, layout.heightForWidth(WIDTH))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)

    @Slot()
    def _agree(self) -> None:
        self.agreed.emit(self._kind, self._repo)
        self.accept()
