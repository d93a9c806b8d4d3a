"""The commands and their options, which derive from the declarations in app.settings."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from app import __version__, records
from app.errors import UserFacingError
from app.hub.entries import Format, Gated
from app.records import DraftSettings, GenerationRequest, Message, ModelSpec, PairSpec
from app.settings import SETTINGS, Setting, Value, draft_settings, sampling_settings

OPTIONS = tuple(key for key, setting in SETTINGS.items() if setting.group == "reply")
"""The settings that a command can change."""

MODEL = "starter, a folder, a GGUF file, or owner/name[@revision][:file.gguf] of the Hub that is on disk"

ON_HUB = "owner/name[@revision][:file.gguf] of the Hub, a folder or a GGUF file"

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
    _add_models(commands)
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
    _add_pair(say)
    for key in OPTIONS:
        _add_setting(say, SETTINGS[key])
    _add_beyond_settings(say)
    say.add_argument("--json", action="store_true", help="one JSON object with every round, instead of text")


def _add_pair(to: argparse.ArgumentParser) -> None:
    """Which two models, and how they are held."""
    ways = get_args(records.Weights)
    to.add_argument("--target", default="starter", metavar="MODEL", help=f"{MODEL} (default: starter)")
    to.add_argument(
        "--assistant",
        default="starter",
        metavar="MODEL",
        help="the same; loaded only if it drafts (default: starter)",
    )
    to.add_argument(
        "--quantization",
        default="auto",
        choices=ways,
        metavar="WEIGHTS",
        help=f"how the weights are held: {', '.join(ways)}; auto takes the faster number format",
    )
    to.add_argument(
        "--assistant-quantization", choices=ways, metavar="WEIGHTS", help="the same for the assistant alone"
    )
    to.add_argument(
        "--device", default="auto", metavar="DEVICE", help="auto, cpu, mps, cuda:0 and so on (default: auto)"
    )
    to.add_argument("--assistant-device", metavar="DEVICE", help="the same for the assistant alone")
    _add_consent(to)


def _add_consent(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--allow-code",
        action="append",
        default=[],
        metavar="REPO",
        help="run the program code that comes with this model: its author then may do whatever you may; repeatable",
    )
    to.add_argument(
        "--allow-pickle",
        action="append",
        default=[],
        metavar="REPO",
        help="read weights that come as pickles, which may hold programs; repeatable",
    )


def _add_models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    words = "search the Hub, judge and download models, and keep what is on disk"
    models = commands.add_parser(
        "models", help=words, description=f"{words.capitalize()}.", allow_abbrev=False
    )
    actions = models.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_search(actions)
    inspect = _add_action(actions, "inspect", "what a model is, its files, and the memory it takes")
    inspect.add_argument("model", metavar="MODEL", help=ON_HUB)
    pair = _add_action(actions, "pair", "whether two models can work together, and why not (then status 1)")
    pair.add_argument("target", metavar="TARGET", help=f"{ON_HUB}, or starter")
    pair.add_argument("assistant", metavar="ASSISTANT", help="the same")
    pair.add_argument("--quantization", default="auto", choices=get_args(records.Weights), metavar="WEIGHTS")
    download = _add_action(actions, "download", "fetch the files that a model needs, or go on with that")
    download.add_argument("model", metavar="MODEL", help=ON_HUB)
    download.add_argument("--again", metavar="FILE", help="drop this file and fetch it once more")
    for each in (inspect, pair):
        each.add_argument(
            "--context", type=_tokens, default=4096, metavar="N", help="tokens to reckon with (default: 4096)"
        )
    for each in (inspect, pair, download):
        _add_consent(each)
    _add_action(actions, "list", "the models in the cache on this disk")
    remove = _add_action(actions, "remove", "delete a model from the cache")
    remove.add_argument("model", metavar="REPO", help="owner/name")


def _add_search(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    search = _add_action(actions, "search", "models on the Hub")
    search.add_argument("text", nargs="?", default="", help="a part of a name, owner/name, or an address")
    search.add_argument(
        "--sort",
        default="downloads",
        choices=("downloads", "likes", "newest", "size"),
        help="size sorts what is listed; all others the whole Hub (default: downloads)",
    )
    search.add_argument("--licence", default="", help="as the Hub names it, such as apache-2.0")
    search.add_argument("--format", default="any", choices=get_args(Format), help="of the weights")
    search.add_argument(
        "--gated", default="any", choices=get_args(Gated), help="whether access must be asked for"
    )
    for name, words in (("smallest", "at least"), ("largest", "at most")):
        search.add_argument(
            f"--{name}", type=_weights, metavar="N", help=f"{words} so many weights: 500M, 3B"
        )
    search.add_argument("--all-tasks", action="store_true", help="also models that do not write text")
    search.add_argument("--limit", type=_tokens, default=20, metavar="N", help="most results (default: 20)")


def _add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, words: str
) -> argparse.ArgumentParser:
    action: argparse.ArgumentParser = actions.add_parser(
        name, help=words, description=f"{words[0].upper()}{words[1:]}.", allow_abbrev=False
    )
    action.add_argument("--json", action="store_true", help="JSON instead of text")
    return action


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


def _tokens(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")


def _weights(text: str) -> int:
    """A number of weights as people write it."""
    read = re.fullmatch(r"(\d+(?:\.\d+)?)([kmb]?)", text.strip().lower())
    if read is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of weights: write it as in 500M or 3B")
    return round(float(read[1]) * {"": 1, "k": 1e3, "m": 1e6, "b": 1e9}[read[2]])


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
    return PairSpec(make_target(options), make_assistant(options) if needed else None)


def make_target(options: argparse.Namespace) -> ModelSpec:
    return consented(parse_model(options.target, options.quantization, options.device), options)


def make_assistant(options: argparse.Namespace) -> ModelSpec:
    weights = options.assistant_quantization or options.quantization
    return consented(
        parse_model(options.assistant, weights, options.assistant_device or options.device), options
    )


def parse_model(text: str, weights: records.Weights = "auto", device: str = "auto") -> ModelSpec:
    """`owner/name`, perhaps with `@revision` and `:file.gguf`; all else is a path."""
    named = re.fullmatch(r"([\w.-]+/[\w.-]+)(?:@([^:@]+))?(?::(.+\.gguf))?", text)
    if named is None or Path(text).exists():
        return ModelSpec(text, weights=weights, device=device)
    return ModelSpec(named[1], named[2] or "main", named[3] or "", weights, device=device)


def consented(spec: ModelSpec, options: argparse.Namespace) -> ModelSpec:
    """The model with what the options allow it."""
    return replace(
        spec, own_code=spec.source in options.allow_code, pickle=spec.source in options.allow_pickle
    )


def _read_prompt(argument: str) -> str:
    given = sys.stdin.buffer.read() if argument == "-" else argument.encode(errors="surrogateescape")
    prompt = given.decode(errors="replace").strip()
    if not prompt:
        raise UserFacingError("There is no prompt.", "", 'Write one: tandem say "Why is the sky blue?"')
    return prompt
