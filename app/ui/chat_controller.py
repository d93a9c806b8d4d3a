"""What happens when: a message becomes a request, rounds become text and figures, failures become words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.engine.stats import Statistics
from app.errors import Cancelled, UserFacingError
from app.records import (
    Drafter,
    DraftSettings,
    GenerationRequest,
    Message,
    PairSpec,
    PairSummary,
    Progress,
    Round,
    Trace,
)
from app.settings import SettingsFile, draft_settings, sampling_settings
from app.ui.main_window import MainWindow
from app.ui.pair_badge import PairState
from app.workers.engine import Engine

READY = "Write a message below. One model drafts, the other checks every token, and you see which ones stand."
LOADING = "The models are being loaded. You can write your first message meanwhile."
WITHOUT_ASSISTANT: dict[Drafter, Drafter] = {"assistant": "none", "hybrid": "lookup"}
NO_MODELS = "No models are loaded, so nothing can be answered yet."


class ChatController(QObject):
    """Connects the window with the engine. One reply is written at a time."""

    pair_loaded = Signal(object)  # PairSpec
    pair_failed = Signal(object)  # UserFacingError, or Cancelled
    reply_counted = Signal(object)  # Statistics of a finished reply

    def __init__(self, window: MainWindow, engine: Engine, settings: SettingsFile) -> None:
        super().__init__(window)
        self._window = window
        self._page = window.chat_page
        self._engine = engine
        self._settings = settings
        self._spec = PairSpec()
        self._cache: Path | None = None
        self._pair: PairSummary | None = None
        self._messages: list[Message] = []
        self._rounds: list[Round] = []
        self._stats = Statistics()
        self._running = False
        self._loading = False
        self._clear_at_end = False
        self._connect()

    def _connect(self) -> None:
        worker, page = self._engine.worker, self._page
        worker.progressed.connect(self._show_progress)
        worker.loaded.connect(self._take_pair)
        worker.load_failed.connect(self._fail_loading)
        worker.pair_changed.connect(self._change_pair)
        worker.rounds_arrived.connect(self._add_rounds)
        worker.finished.connect(self._finish)
        worker.failed.connect(self._fail)
        page.prompt_box.submitted.connect(self._submit)
        page.prompt_box.stop_requested.connect(self._stop)
        page.message_bar.action_requested.connect(self.load)
        self._window.stop_requested.connect(self._stop)
        self._window.new_chat_requested.connect(self._start_new_chat)
        self._window.side_panel_toggled.connect(self._remember_panel)
        self._window.side_panel.setting_changed.connect(self._change_setting)

    @property
    def loaded(self) -> PairSpec | None:
        """The pair that is loaded, as it was asked for."""
        return self._spec if self._pair is not None else None

    @property
    def held(self) -> Mapping[str, int]:
        """Bytes of weights of the loaded pair on each device."""
        return self._pair.taken if self._pair is not None else {}

    def load_pair(self, spec: PairSpec, cache: Path | None) -> None:
        """Loads another pair in place of the one that is there; a running reply is stopped."""
        self._spec, self._cache = spec, cache
        self._stop()
        self.load()

    @Slot()
    def load(self) -> None:
        """Loads the pair; until that is done messages can be written but not sent."""
        self._pair, self._loading = None, True
        self._window.badge.show_state(PairState.LOADING)
        self._page.show_invitation(LOADING)
        self._show_state()
        self._engine.load(self._spec, self._cache)

    @Slot(object)
    def _show_progress(self, progress: Progress) -> None:
        if self._loading:
            self._window.badge.show_progress(progress)
        elif self._running:
            share = "" if progress.share is None else f" {100 * progress.share:.0f} %"
            self._page.transcript.show_progress(f"{progress.message}{share}")

    @Slot(object)
    def _take_pair(self, summary: PairSummary) -> None:
        self._pair, self._loading = summary, False
        self.pair_loaded.emit(self._spec)
        self._window.badge.show_pair(summary)
        self._page.show_invitation(READY)
        self._show_state()

    @Slot(object)
    def _change_pair(self, summary: PairSummary) -> None:
        """The engine had to let the assistant go."""
        self._pair = summary
        self._window.badge.show_pair(summary)
        self._show_state()

    @Slot(object)
    def _fail_loading(self, error: Exception) -> None:
        self._loading = False
        self._page.show_invitation(NO_MODELS)
        self._show_state()
        if isinstance(error, Cancelled):
            error = UserFacingError("Loading was cancelled.")
        if isinstance(error, UserFacingError):
            self._window.badge.show_state(PairState.OFF, error.title[0].lower() + error.title[1:].rstrip("."))
            self._page.message_bar.show_error(error, "Try again")
        self.pair_failed.emit(error)

    @Slot(str)
    def _submit(self, text: str) -> None:
        self._page.message_bar.hide()
        self._page.show_conversation(True)
        self._page.transcript.add_user(text)
        self._page.transcript.add_reply(self._pair.target if self._pair else "Tandem")
        self._page.transcript.show_progress("Thinking")
        self._messages.append(Message("user", text))
        self._rounds, self._stats, self._running = [], Statistics(), True
        self._show_state()
        self._engine.generate(
            GenerationRequest(
                messages=tuple(self._messages),
                sampling=sampling_settings(self._settings.values),
                draft=self._draft(),
                max_new_tokens=int(self._settings.values["max_new_tokens"]),
            )
        )

    @Slot(object)
    def _add_rounds(self, rounds: tuple[Round, ...]) -> None:
        self._rounds.extend(rounds)
        for each in rounds:
            self._stats = self._stats.observe(each)
        self._page.transcript.add_rounds(rounds)
        self._window.side_panel.show_statistics(self._stats)

    @Slot(object)
    def _finish(self, trace: Trace) -> None:
        self.reply_counted.emit(self._stats)
        self._page.transcript.finish_reply(trace.finish_reason)
        self._end_turn(trace.text)

    @Slot(object)
    def _fail(self, error: UserFacingError) -> None:
        """Keeps what was written; where nothing was, the message goes back into the prompt box."""
        if self._rounds:
            self._page.transcript.finish_reply("stopped")
            self._end_turn("".join(each.text for each in self._rounds))
        else:
            message = self._messages.pop()
            self._page.transcript.drop_last_turn()
            self._page.prompt_box.set_text(message.content)
            self._page.show_conversation(bool(self._messages))
            self._end_turn("")
        self._page.message_bar.show_error(error)

    def _end_turn(self, reply: str) -> None:
        self._running = False
        if self._messages and self._messages[-1].role == "user":
            self._messages.append(Message("assistant", reply))
        self._show_state()
        if self._clear_at_end:
            self._start_new_chat()

    @Slot()
    def cancel_loading(self) -> None:
        if self._loading:
            self._engine.stop()

    @Slot()
    def _stop(self) -> None:
        if self._running:
            self._engine.stop()

    @Slot()
    def _start_new_chat(self) -> None:
        """Clears the page; a running reply is stopped first and its end awaited."""
        self._clear_at_end = self._running
        if self._running:
            self._engine.stop()
            return
        self._messages.clear()
        self._page.transcript.clear()
        self._page.message_bar.hide()
        self._page.show_conversation(False)
        self._page.prompt_box.setFocus()

    @Slot(str, object)
    def _change_setting(self, key: str, value: object) -> None:
        self._settings.set(key, value)
        if key == "ghosts":
            self._page.transcript.show_ghosts(str(value))
        self._show_state()

    @Slot(bool)
    def _remember_panel(self, shown: bool) -> None:
        self._settings.set("side_panel", shown)

    def _show_state(self) -> None:
        self._page.prompt_box.set_state(ready=self._pair is not None, running=self._running)
        self._window.side_panel.set_running(self._running)
        if self._pair is None:
            return
        off = self._why_plain()
        if off:
            self._window.badge.show_state(PairState.OFF, off)
        else:
            self._window.badge.show_state(PairState.ACTIVE if self._running else PairState.IDLE)

    def _draft(self) -> DraftSettings:
        """As the person has set it, without an assistant where none is loaded: the badge says so."""
        draft = draft_settings(self._settings.values)
        if self._pair is None or self._pair.assistant is not None:
            return draft
        return replace(draft, drafter=WITHOUT_ASSISTANT.get(draft.drafter, draft.drafter))

    def _why_plain(self) -> str:
        """Why nothing will be drafted with the settings as they are; empty when something will."""
        draft = draft_settings(self._settings.values)
        if draft.drafts:
            if self._pair is None or self._pair.assistant is not None or draft.drafter != "assistant":
                return ""
            return self._pair.assistant_off or "no assistant is loaded"
        return "no drafter is chosen" if draft.drafter == "none" else "the draft length is 0"
