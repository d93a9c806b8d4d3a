"""The commands and their options, which derive from the declarations in app.settings."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import get_args

from app import __version__, records
from app.errors import UserFacingError
from app.records import DraftSettings, GenerationRequest, Message, PairSpec
from app.settings import SETTINGS, Setting, Value, draft_settings, sampling_settings

OPTIONS = tuple(key for key in SETTINGS if key not in ("ghosts", "side_panel"))
"""The settings that a command can change: all but those of the window."""

DEFAULTS: dict[str, Value] = {"temperature": 0.0}
"""Where the terminal's default is not the window's: a command gives the same answer every time."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of one command. Raises SystemExit, with the allowed range in words when a value is wrong."""
    parser = argparse.ArgumentParser(
        prog="tandem",
        description="A small model drafts, a big one verifies, you watch. Without a command the window opens.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"Tandem {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_say(commands)
    words = "tell what this machine and this installation can do"
    doctor = commands.add_parser(
        "doctor", help=words, description=f"{words.capitalize()}.", allow_abbrev=False
    )
    doctor.add_argument("--json", action="store_true", help="one JSON object instead of text")
    return parser.parse_args(arguments)


def _add_say(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    words = "answer a prompt in the terminal"
    say = commands.add_parser(
        "say",
        help=words,
        description=f"{words.capitalize()}. Ctrl+C stops and keeps what was written; a second one kills.",
        allow_abbrev=False,
    )
    say.add_argument("prompt", help="what to say; - reads it from standard input")
    say.add_argument(
        "--target", default="starter", metavar="MODEL", help="starter, or a model's folder (default: starter)"
    )
    say.add_argument(
        "--assistant",
        default="starter",
        metavar="MODEL",
        help="starter, or a model's folder; loaded only if it drafts (default: starter)",
    )
    for key in OPTIONS:
        _add_setting(say, SETTINGS[key])
    _add_beyond_settings(say)
    dtypes = get_args(records.Dtype)
    say.add_argument(
        "--dtype", default="auto", choices=dtypes, help="number format; auto takes the faster (default: auto)"
    )
    say.add_argument("--json", action="store_true", help="one JSON object with every round, instead of text")


def _add_beyond_settings(say: argparse.ArgumentParser) -> None:
    """What a request can ask for and no single value of a setting could say."""
    say.add_argument(
        "--stop",
        action="append",
        default=[],
        type=_text,
        metavar="TEXT",
        help="ends the reply before this text; repeatable",
    )
    say.add_argument(
        "--logit-bias",
        action="append",
        default=[],
        type=_bias,
        metavar="ID=X",
        help="adds X to the score of a token; repeatable",
    )
    say.add_argument(
        "--variants",
        type=_number_of_variants,
        default=1,
        metavar="N",
        help=f"so many replies in one batch, with seeds that count up (1 to {records.MAX_VARIANTS}; default: 1)",
    )
    say.add_argument(
        "--no-alternatives",
        action="store_true",
        help="do not record what else both models would have written",
    )


def _add_setting(parser: argparse.ArgumentParser, setting: Setting) -> None:
    default = DEFAULTS.get(setting.key, setting.default)
    number = "N" if isinstance(setting.default, int) else "X"
    allowed = "" if setting.choices else f"{setting.allowed}; "
    parser.add_argument(
        "--" + setting.key.replace("_", "-"),
        default=default,
        type=_checked(setting),
        metavar="{" + ",".join(setting.choices) + "}" if setting.choices else number,
        help=f"{setting.help.rstrip('.')} ({allowed}default: {default})".replace("%", "%%"),
    )


def _checked(setting: Setting) -> Callable[[str], Value]:
    """argparse's converter for a setting, whose refusal names what is allowed."""

    def check(text: str) -> Value:
        try:
            return setting.check(text)
        except UserFacingError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return check


def _text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("a stop string cannot be empty")
    return text


def _bias(text: str) -> tuple[int, float]:
    token, _, bias = text.partition("=")
    try:
        pair = int(token), float(bias)
    except ValueError:
        pair = -1, math.nan
    if pair[0] < 0 or not math.isfinite(pair[1]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no token id and number: write it as in --logit-bias 42=-5"
        )
    return pair


def _number_of_variants(text: str) -> int:
    if text.isdecimal() and 1 <= int(text) <= records.MAX_VARIANTS:
        return int(text)
    raise argparse.ArgumentTypeError(f"Variants cannot be {text!r}. Choose 1 to {records.MAX_VARIANTS}.")


def make_request(options: argparse.Namespace) -> GenerationRequest:
    """What the options ask for. Raises UserFacingError when there is no prompt."""
    values = {key: getattr(options, key) for key in OPTIONS}
    sampling = replace(sampling_settings(values), logit_bias=tuple(options.logit_bias))
    return GenerationRequest(
        messages=(Message("user", _read_prompt(options.prompt)),),
        sampling=sampling,
        draft=draft_settings(values),
        max_new_tokens=options.max_new_tokens,
        stop_strings=tuple(options.stop),
        num_variants=options.variants,
        alternatives=not options.no_alternatives,
    )


def make_spec(options: argparse.Namespace, draft: DraftSettings) -> PairSpec:
    """The pair to load: without the assistant where nothing asks it to draft."""
    needed = draft.drafts and draft.drafter in ("assistant", "hybrid")
    return PairSpec(options.target, options.assistant if needed else None, options.dtype)


def _read_prompt(argument: str) -> str:
    given = sys.stdin.buffer.read() if argument == "-" else argument.encode(errors="surrogateescape")
    prompt = given.decode(errors="replace").strip()
    if not prompt:
        raise UserFacingError("There is no prompt.", "", 'Write one: tandem say "Why is the sky blue?"')
    return prompt
