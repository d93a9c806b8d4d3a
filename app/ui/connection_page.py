"""The way to the Hub: where models live, address, proxy, certificates, offline, and the access token."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.settings import SETTINGS, Values
from app.ui.message_bar import MessageBar
from app.ui.theme import Theme, named

WIDTH = 640


class ConnectionPage(QWidget):
    setting_changed = Signal(str, object)  # key, value
    token_given = Signal(str)
    token_dropped = Signal()
    folder_requested = Signal()

    def __init__(self, theme: Theme, values: Values, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.message_bar = MessageBar(theme)
        self._fields: dict[str, QLineEdit] = {}
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.setVerticalSpacing(16)
        form.setHorizontalSpacing(24)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for key, setting in SETTINGS.items():
            if setting.group == "hub" and isinstance(setting.default, str):
                words = named(QLabel(setting.help, wordWrap=True), "muted")
                form.addRow(setting.label, _above(self._make_field(key, str(values[key])), words))
        self._offline = QCheckBox(SETTINGS["offline"].help)
        self._offline.setAccessibleName(SETTINGS["offline"].label)
        self._offline.setChecked(bool(values["offline"]))
        self._offline.toggled.connect(self._change_offline)
        form.addRow(SETTINGS["offline"].label, self._offline)
        self._add_token(form)
        column = QWidget()
        column.setMaximumWidth(WIDTH)
        inner = QVBoxLayout(column)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(16)
        inner.addWidget(named(QLabel("The way to the Hub"), "title"))
        inner.addWidget(self.message_bar)
        inner.addLayout(form)
        inner.addStretch(1)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(24, 16, 24, 24)
        layout.addWidget(column)
        layout.addStretch(1)

    def _make_field(self, key: str, value: str) -> QWidget:
        field = QLineEdit(value)
        field.setAccessibleName(SETTINGS[key].label)
        field.setProperty("key", key)
        field.editingFinished.connect(self._change)
        self._fields[key] = field
        if key != "models_folder":
            return field
        part = QFrame()
        row = QHBoxLayout(part)
        row.setContentsMargins(0, 0, 0, 0)
        choose = QPushButton("Choose …")
        choose.clicked.connect(self.folder_requested)
        row.addWidget(field, 1)
        row.addWidget(choose)
        return part

    def _add_token(self, form: QFormLayout) -> None:
        self._token = QLineEdit()
        self._token.setEchoMode(QLineEdit.EchoMode.Password)
        self._token.setAccessibleName("Access token")
        self._token.setPlaceholderText("hf_…")
        keep = QPushButton("Keep")
        keep.clicked.connect(self._give)
        self._drop = QPushButton("Forget it")
        self._drop.clicked.connect(self.token_dropped)
        part = QFrame()
        row = QHBoxLayout(part)
        row.setContentsMargins(0, 0, 0, 0)
        for each in (self._token, keep, self._drop):
            row.addWidget(each)
        self._token_state = named(QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText), "muted")
        form.addRow("Access token", _above(part, self._token_state))

    def show_values(self, values: Values) -> None:
        for key, field in self._fields.items():
            field.setText(str(values[key]))

    def show_busy_token(self) -> None:
        self._token_state.setText("Asking the Hub whose token it is …")

    @Slot(object)
    def show_token(self, masked: str) -> None:
        """The token as it may be shown: its last characters; empty when there is none."""
        told = f"In use: {masked}. It is kept where all Hugging Face tools keep it." if masked else ""
        self._token_state.setText(
            told or "None. Gated and private models need one: huggingface.co/settings/tokens"
        )
        self._drop.setVisible(bool(masked))

    @Slot(object)
    def take_theme(self, theme: Theme) -> None:
        self.message_bar.take_theme(theme)

    @Slot()
    def _change(self) -> None:
        field = self.sender()
        if isinstance(field, QLineEdit):
            self.setting_changed.emit(field.property("key"), field.text())

    @Slot(bool)
    def _change_offline(self, offline: bool) -> None:
        self.setting_changed.emit("offline", offline)

    @Slot()
    def _give(self) -> None:
        self.token_given.emit(self._token.text().strip())
        self._token.clear()


def _above(field: QWidget, words: QLabel) -> QWidget:
    """A field with what is to be known of it below."""
    part = QWidget()
    layout = QVBoxLayout(part)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(4)
    layout.addWidget(field)
    layout.addWidget(words)
    return part
