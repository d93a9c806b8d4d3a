"""The terminal's front end, with a scripted pair in the place of a real one."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app import __version__
from app.cli import say as say_module
from app.cli.arguments import OPTIONS, make_request, make_spec, parse
from app.cli.main import main
from app.cli.terminal import MARKS, ProgressLine, mark, visible
from app.engine.cached_model import ModelPair
from app.errors import Cancelled, UserFacingError
from app.models import loading
from app.records import PairSpec, Progress
from app.settings import SETTINGS
from app.spans import spans
from tests.helpers.sample_rounds import make_rounds
from tests.helpers.scripted import ScriptedModel, last_two_tokens, mixed, scripted_pair

VOCABULARY = 12


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def specs(monkeypatch: pytest.MonkeyPatch) -> list[PairSpec]:
    """Puts a scripted pair in the place of the loaded one; holds what was asked to be loaded."""
    asked: list[PairSpec] = []

    def load_pair(spec: PairSpec, models: Path, stop: Event, tell: Callable[[Progress], None]) -> ModelPair:
        asked.append(spec)
        tell(Progress("Loading the target", 0.5))
        return _pair(with_assistant=spec.assistant is not None)

    monkeypatch.setattr(loading, "load_pair", load_pair)
    return asked


@pytest.fixture
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def _pair(with_assistant: bool = True) -> ModelPair:
    script = last_two_tokens(1, VOCABULARY)
    helper = ScriptedModel(mixed(script, last_two_tokens(2, VOCABULARY), 0.4), VOCABULARY)
    return scripted_pair(ScriptedModel(script, VOCABULARY), helper if with_assistant else None)


def say_json(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    status = main(["say", "1 2 3", "--json", "--max-new-tokens", "40", *options])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1, "exactly one object"
    answer: dict[str, Any] = json.loads(lines[0])
    return answer | {"status": status}


# -- Options -----------------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_settings_but_greedy() -> None:
    options = parse(["say", "Hello"])
    assert options.temperature == 0.0
    expected = {key: SETTINGS[key].default for key in OPTIONS if key != "temperature"}
    assert {key: getattr(options, key) for key in expected} == expected
    assert (options.target, options.assistant, options.quantization) == ("starter", "starter", "auto")


def test_options_reach_the_request() -> None:
    words = "--drafter lookup --draft-length 7 --schedule heuristic --rule sample-match --temperature 0.5"
    more = "--top-p 0.9 --top-k 40 --seed 11 --max-new-tokens 9"
    request = make_request(parse(["say", " Hello ", *words.split(), *more.split()]))
    assert [(each.role, each.content) for each in request.messages] == [("user", "Hello")]
    assert (request.draft.drafter, request.draft.draft_length) == ("lookup", 7)
    assert (request.draft.schedule, request.draft.rule) == ("heuristic", "sample-match")
    assert (request.sampling.temperature, request.sampling.top_p, request.sampling.top_k) == (0.5, 0.9, 40)
    assert (request.sampling.seed, request.max_new_tokens) == (11, 9)


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--temperature", "3", "0 to 2"),
        ("--temperature", "-1", "0 to 2"),
        ("--temperature", "nan", "0 to 2"),
        ("--top-p", "0", "0.01 to 1"),
        ("--draft-length", "1.5", "0 to 16"),
        ("--draft-length", "many", "0 to 16"),
        ("--drafter", "nobody", "assistant, lookup, early-exit, hybrid, none"),
        ("--rule", "best", "auto, match, sample-match, speculative"),
        ("--quantization", "int3", "float32"),
        ("--confidence-threshold", "high", "0 to 1, 0 is off"),
        ("--variants", "9", "1 to 8"),
        ("--stop", "", "cannot be empty"),
        ("--logit-bias", "x=1", "42=-5"),
        ("--logit-bias", "3=nan", "42=-5"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(
    option: str, value: str, allowed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["say", "Hello", option, value])
    assert ended.value.code == 2
    written = capsys.readouterr()
    assert allowed in written.err and option in written.err
    assert written.out == ""


def test_help_names_every_option_with_its_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["say", "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for key in OPTIONS:
        assert "--" + key.replace("_", "-") in text
        assert " ".join(SETTINGS[key].help.rstrip(".").split()) in text
    assert "(0 to 2; default: 0.0)" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"Tandem {__version__}\n"


def test_every_other_option_reaches_the_request_too() -> None:
    words = (
        "--min-p 0.1 --typical-p 0.9 --repetition-penalty 1.2 --presence-penalty 0.5 --frequency-penalty -0.5"
    )
    more = "--confidence-threshold off --exit-layer 4 --stop END --stop ### --variants 3 --no-alternatives"
    request = make_request(parse(["say", "Hello", *words.split(), *more.split(), "--logit-bias", "7=-2.5"]))
    sampling = request.sampling
    assert (sampling.min_p, sampling.typical_p, sampling.repetition_penalty) == (0.1, 0.9, 1.2)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.5, -0.5)
    assert sampling.logit_bias == ((7, -2.5),)
    assert (request.draft.confidence_threshold, request.draft.exit_layer) == (0, 4), "D4: off is a number"
    assert (request.stop_strings, request.num_variants) == (("END", "###"), 3)
    assert not request.alternatives


@pytest.mark.parametrize("options", [["--drafter", "none"], ["--drafter", "lookup"], ["--draft-length", "0"]])
def test_an_assistant_that_does_not_draft_is_not_loaded(options: list[str], specs: list[PairSpec]) -> None:
    assert main(["say", "1 2", "--assistant", "somewhere", *options]) == 0
    assert specs == [PairSpec.of("starter", None)]


def test_the_named_pair_is_loaded(specs: list[PairSpec]) -> None:
    named = ["--target", "big", "--assistant", "small", "--quantization", "float32"]
    assert main(["say", "1 2", *named]) == 0
    assert specs == [PairSpec.of("big", "small", "float32")]
    assert make_spec(parse(["say", "x", *named]), make_request(parse(["say", "x"])).draft) == specs[0]


def test_the_prompt_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Grüße \xff\n".encode("latin-1"))))
    assert make_request(parse(["say", "-"])).messages[0].content == "Gr\ufffd\ufffde \ufffd"


def test_an_empty_prompt_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["say", "  "]) == 1
    assert "no prompt" in capsys.readouterr().err


# -- One JSON object ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ([], "match"),
        (["--drafter", "lookup"], "match"),
        (["--drafter", "none"], "match"),
        (["--temperature", "0.8"], "speculative"),
        (["--temperature", "0.8", "--drafter", "lookup"], "sample-match"),
    ],
)
def test_the_fields_add_up(
    options: list[str], rule: str, specs: list[PairSpec], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = say_json(capsys, *options)
    rounds, stats = answer["rounds"], answer["stats"]
    assert (answer["status"], answer["finish_reason"], answer["rule"]) == (0, "length", rule)
    assert answer["text"] == "".join(piece for each in rounds for piece in each["pieces"])
    assert stats["num_rounds"] == len(rounds)
    assert stats["num_emitted"] == 40
    assert stats["num_candidates"] == sum(len(each["candidates"]) for each in rounds)
    assert stats["num_judged"] == sum(each["num_judged"] for each in rounds)
    assert stats["num_accepted"] == sum(each["num_accepted"] for each in rounds)
    assert stats["tokens_per_round"] == pytest.approx(40 / len(rounds))
    assert stats["tokens_per_second"] == pytest.approx(40 / sum(each["seconds"] for each in rounds))
    assert sum(each["judged"] for each in stats["per_position"]) == stats["num_judged"]
    assert sum(each["accepted"] for each in stats["per_position"]) == stats["num_accepted"]
    if stats["num_judged"]:
        assert stats["acceptance_rate"] == pytest.approx(stats["num_accepted"] / stats["num_judged"])
    else:
        assert stats["acceptance_rate"] is None
    assert set(OPTIONS) <= set(answer["settings"])


def test_a_round_in_json(specs: list[PairSpec], capsys: pytest.CaptureFixture[str]) -> None:
    first, *_ = say_json(capsys, "--draft-length", "4")["rounds"]
    names = "candidates num_judged num_accepted next_token next_kind draft_length draft_seconds verify_seconds seconds"
    assert set(names.split()) <= set(first)
    assert (len(first["candidates"]), first["draft_length"]) == (4, 4)
    for token in (*first["candidates"], first["next_token"]):
        assert {"id", "text", "source", "acceptance_probability"} <= set(token)
        assert {"target_probability", "assistant_probability"} <= set(token)
    assert [each["source"] for each in first["candidates"]] == ["assistant"] * 4
    assert len(first["alternatives"]) == first["num_accepted"] + 1


def test_variants_are_replies_of_their_own(specs: list[PairSpec], capsys: pytest.CaptureFixture[str]) -> None:
    sampled = ["--temperature", "0.9", "--max-new-tokens", "12"]
    answer = say_json(capsys, *sampled, "--variants", "3", "--seed", "5")
    alone = [say_json(capsys, *sampled, "--seed", str(seed))["text"] for seed in (5, 6, 7)]
    assert answer["texts"] == alone
    assert (answer["text"], answer["finish_reasons"]) == (alone[0], ["length"] * 3)
    assert main(["say", "1 2 3", *sampled, "--variants", "3", "--seed", "5"]) == 0
    written = capsys.readouterr().out
    assert [line for line in written.splitlines() if line.startswith("==")] == [
        f"== variant {i + 1}, seed {5 + i} ==" for i in range(3)
    ]
    assert all(text.strip() in written for text in alone)


def test_a_stop_string_ends_the_text(specs: list[PairSpec], capsys: pytest.CaptureFixture[str]) -> None:
    whole = say_json(capsys)["text"]
    word = whole.split()[6]
    answer = say_json(capsys, "--stop", f" {word} ")
    assert answer["finish_reason"] == "stop-string"
    assert answer["text"] == whole[: whole.index(f" {word} ")]


def test_plain_and_assisted_text_agree(specs: list[PairSpec], capsys: pytest.CaptureFixture[str]) -> None:
    assert say_json(capsys)["text"] == say_json(capsys, "--drafter", "none")["text"]


def test_an_error_is_an_object_too(specs: list[PairSpec], capsys: pytest.CaptureFixture[str]) -> None:
    answer = say_json(capsys, "--rule", "speculative")
    assert answer["status"] == 1
    assert set(answer["error"]) == {"title", "detail", "remedy"}
    assert "temperature 0" in answer["error"]["title"]
    assert specs == [], "refused before anything is loaded"


def test_an_error_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["say", "Hello", "--target", str(tmp_path)]) == 1
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.splitlines()[0] == f"No model found at {tmp_path}."
    assert "Traceback" not in written.err


def test_what_a_library_prints_does_not_reach_standard_output(
    specs: list[PairSpec], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = loading.load_pair

    def talkative(*arguments: Any) -> Any:
        sys.stdout.write("Did you know?\n")
        return quiet(*arguments)

    monkeypatch.setattr(loading, "load_pair", talkative)
    assert say_json(capsys)["text"]


# -- Text --------------------------------------------------------------------------------------------------


def test_piped_text_is_bare(specs: list[PairSpec], capsys: pytest.CaptureFixture[str]) -> None:
    text = say_json(capsys)["text"]
    assert main(["say", "1 2 3", "--max-new-tokens", "40"]) == 0
    written = capsys.readouterr()
    assert written.out == text + "\n"
    assert "\x1b" not in written.err
    for figure in (
        "judged candidates accepted",
        "per round",
        "tokens/s",
        "draft",
        "verify",
        "ended by length",
    ):
        assert figure in written.err


@pytest.mark.usefixtures("colours", "specs")
def test_a_terminal_gets_marks_ghosts_and_a_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(["say", "1 2 3", "--max-new-tokens", "40"]) == 0
    for kind in ("accepted", "rejected", "recovered"):
        assert MARKS[kind] in out.getvalue()
        assert mark(kind, kind) in err.getvalue(), "legend"
    assert "Loading the target 50 %" in err.getvalue()
    assert "per round" in err.getvalue()


@pytest.mark.usefixtures("specs")
@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_sequences_where_none_are_wanted(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv(name, value)
    assert main(["say", "1 2 3", "--max-new-tokens", "40"]) == 0
    assert "\x1b" not in out.getvalue()


def test_every_kind_has_a_mark_of_its_own() -> None:
    assert len(set(MARKS.values())) == len(MARKS)
    lines = {kind: sequence.rpartition("\x1b")[2] for kind, sequence in MARKS.items()}
    assert lines == {
        "accepted": "[4m",
        "rejected": "[9m",
        "recovered": "[4:4m",
        "bonus": "[4:5m",
        "plain": "",
    }


def test_ghosts_stand_where_they_were_drafted() -> None:
    (this_round,) = make_rounds([("A| bird", " is|\n", " flies")])
    assert [(span.kind, span.text) for span in spans(this_round)] == [
        ("accepted", "A"),
        ("accepted", " bird"),
        ("rejected", " is"),
        ("rejected", "↵"),
        ("recovered", " flies"),
    ]


def test_what_is_left_of_a_draft_behind_the_end_is_no_ghost() -> None:
    (this_round,) = make_rounds([("Done|.", " And", "")], finish="eos")
    assert [span.kind for span in spans(this_round)] == ["accepted", "accepted"]


def test_control_characters_are_shown_not_obeyed() -> None:
    wicked = "a\x1b]0;title\x07b\x9b2J\x00\x7f\r\b\tc\nd é 日"
    assert visible(wicked) == "a␛]0;title␇b\\x9b2J␀␡␍␈\tc\nd é 日"
    (this_round,) = make_rounds([("\x1b[2J", "\x1b[3J", "\x9b1m")])
    text = "".join(mark(span.kind, span.text) for span in spans(this_round))
    for sequence in (*MARKS.values(), "\x1b[0m"):
        text = text.replace(sequence, "") if sequence else text
    assert "\x1b" not in text and "\x9b" not in text


def test_progress_stays_on_one_line_and_is_erased() -> None:
    out = Terminal()
    line = ProgressLine(out)
    line.show(Progress("Loading " + "x" * 1000, 0.25))
    line.clear()
    line.clear()
    assert "\n" not in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K") and out.getvalue().count("\x1b[K") == 2
    assert len(out.getvalue()) < 1000


def test_progress_is_silent_in_a_pipe() -> None:
    out = io.StringIO()
    ProgressLine(out).show(Progress("Loading"))
    assert out.getvalue() == ""


# -- Stopping ----------------------------------------------------------------------------------------------


def test_ctrl_c_keeps_what_was_written(
    specs: list[PairSpec], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = say_json(capsys)["text"]
    show = ProgressLine.clear
    calls = []

    def interrupt(line: ProgressLine) -> None:  # called once a round
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        show(line)

    monkeypatch.setattr(ProgressLine, "clear", interrupt)
    before = signal.getsignal(signal.SIGINT)
    answer = say_json(capsys)
    assert (answer["status"], answer["finish_reason"]) == (130, "stopped")
    assert 0 < len(answer["text"]) < len(whole) and whole.startswith(answer["text"])
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_would_kill() -> None:
    with say_module.interruptible() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


@pytest.mark.parametrize("failure", [Cancelled(), KeyboardInterrupt()])
def test_stopped_before_the_reply_began(
    failure: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load_pair(*arguments: object) -> None:
        raise failure

    monkeypatch.setattr(loading, "load_pair", load_pair)
    answer = say_json(capsys)
    assert (answer["status"], answer["error"]["title"]) == (130, "Stopped.")


@pytest.mark.usefixtures("specs")
def test_running_out_of_memory_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def forward(*arguments: object, **keywords: object) -> None:
        raise MemoryError

    monkeypatch.setattr(ScriptedModel, "forward", forward)
    answer = say_json(capsys)
    assert answer["status"] == 1 and "memory" in answer["error"]["title"]


@pytest.mark.usefixtures("specs")
def test_a_bug_is_not_dressed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(*arguments: object, **keywords: object) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(ScriptedModel, "forward", forward)
    with pytest.raises(RuntimeError, match="shapes"):
        main(["say", "1 2 3"])


def test_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load_pair(*arguments: object) -> None:
        raise ImportError("No module named 'gguf'")

    monkeypatch.setattr(loading, "load_pair", load_pair)
    assert main(["say", "Hello"]) == 1
    assert "No module named 'gguf'" in capsys.readouterr().err


def test_user_facing_errors_cannot_drive_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load_pair(*arguments: object) -> None:
        raise UserFacingError("Bad \x1b[2J name")

    monkeypatch.setattr(loading, "load_pair", load_pair)
    assert main(["say", "Hello"]) == 1
    assert capsys.readouterr().err == "Bad ␛[2J name\n"


# -- In a process of its own -------------------------------------------------------------------------------

QUICK = """
import sys
from app.__main__ import main
try:
    main()
except SystemExit as ended:
    print("status", ended.code)
print("heavy", [name for name in ("torch", "transformers", "PySide6") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("arguments", "status"),
    [("--help", 0), ("--version", 0), ("say --help", 0), ("doctor --help", 0), ("say x --seed x", 2)],
)
def test_quick_answers_import_nothing_heavy(arguments: str, status: int) -> None:
    command = [sys.executable, "-c", QUICK, *arguments.split()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.stdout.splitlines()[-2:] == [f"status {status}", "heavy []"], ended.stderr


def test_without_arguments_the_window_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    import app.__main__
    import app.application

    opened: list[list[str]] = []
    monkeypatch.setattr(app.application, "run", lambda arguments: opened.append(arguments) or 7)
    monkeypatch.setattr(sys, "argv", ["tandem"])
    assert app.__main__.main() == 7
    assert opened == [[]]
