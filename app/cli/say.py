"""`tandem say`: one reply, as live text or as one JSON object with every round."""

from __future__ import annotations

import json
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from threading import Event
from typing import TYPE_CHECKING, Any, TextIO

from app.cli.arguments import make_request, make_spec
from app.cli.terminal import MARKS, ProgressLine, is_styled, mark, visible
from app.engine.stats import Statistics
from app.records import GenerationRequest, PairSpec, PairSummary, Round, Trace, as_dict
from app.resources import data_folder
from app.spans import spans

if TYPE_CHECKING:
    from app.engine.cached_model import ModelPair


def say(options: Namespace) -> int:
    """Writes the reply to standard output; returns 130 when it was stopped, else 0."""
    request = make_request(options)
    view = (
        JsonView(sys.stdout)
        if options.json
        else TextView(sys.stdout, sys.stderr, live=request.num_variants == 1)
    )
    # Nothing but the reply goes to standard output, whatever a library thinks worth telling.
    with interruptible() as stop, redirect_stdout(sys.stderr):
        trace, pair = reply(make_spec(options, request.draft), request, stop, view.show_round)
    view.finish(trace, pair)
    return 130 if trace.finish_reason == "stopped" else 0


def reply(
    spec: PairSpec, request: GenerationRequest, stop: Event, show_round: Callable[[Round], None]
) -> tuple[Trace, PairSummary]:
    """Loads the pair and generates, handing over every round as it ends."""
    # Only here, after --help and wrong options: torch takes seconds to import.
    from app.engine.rules import choose_rule

    rule = choose_rule(request.draft, request.sampling)
    progress = ProgressLine(sys.stderr)
    rounds = []
    try:
        pair = load(spec, stop, progress)
        for each in generate(pair, request, stop, progress):
            show_round(each)
            rounds.append(each)
    finally:
        progress.clear()
    return Trace(request, rule, tuple(rounds)), pair.summary


@contextmanager
def interruptible() -> Iterator[Event]:
    """An event that the first Ctrl+C sets; the second one kills, should the first find no hearing."""
    stop = Event()

    def ask(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        stop.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def load(spec: PairSpec, stop: Event, progress: ProgressLine) -> ModelPair:
    """The loaded pair. Raises UserFacingError when it cannot be had, Cancelled when `stop` is set."""
    from app.models.loading import load_pair

    return load_pair(spec, data_folder() / "models", stop, progress.show)


def generate(
    pair: ModelPair, request: GenerationRequest, stop: Event, progress: ProgressLine
) -> Iterator[Round]:
    """The rounds of the reply. Raises UserFacingError where the machine fails, as when memory runs out."""
    from app.engine.decoding import rounds
    from app.engine.failures import explain

    try:
        for each in rounds(pair, request, stop, progress.show):
            progress.clear()
            yield each
    except (RuntimeError, MemoryError) as error:
        explained = explain(error)
        if explained is None:
            raise
        raise explained from error


class TextView:
    """The reply as it grows: marked, with the rejected candidates in place, or as bare text in a pipe."""

    def __init__(self, output: TextIO, notes: TextIO, live: bool = True) -> None:
        self._output = output
        self._notes = notes
        self._live = live
        self._styled = is_styled(output)

    def show_round(self, this_round: Round) -> None:
        """One reply is written as it grows; several would get mixed up and wait for the end."""
        if self._live:
            self._write(this_round)

    def _write(self, this_round: Round) -> None:
        if self._styled:
            self._output.write("".join(mark(span.kind, span.text) for span in spans(this_round)))
        else:
            self._output.write(visible(this_round.text))
        self._output.flush()

    def _write_variants(self, trace: Trace) -> None:
        for variant, (rounds, text) in enumerate(zip(trace.variants, trace.texts, strict=True)):
            seed = trace.request.sampling.seed + variant
            self._output.write(f"{chr(10) if variant else ''}== variant {variant + 1}, seed {seed} ==\n")
            for each in rounds:
                self._write(each)
            self._output.write("" if text.endswith("\n") else "\n")

    def finish(self, trace: Trace, pair: PairSummary) -> None:
        if not self._live:
            self._write_variants(trace)
        elif not trace.text.endswith("\n"):
            self._output.write("\n")
        self._output.flush()
        kinds = {span.kind for each in trace.rounds for span in spans(each)}
        if self._styled and is_styled(self._notes) and kinds - {"plain"}:
            self._notes.write("  ".join(mark(kind, kind) for kind in MARKS if kind in kinds) + "\n")
        for note in pair.notes:
            self._notes.write(f"note: {visible(note)}\n")
        self._notes.write(figures(Statistics.of(trace.rounds), trace) + "\n")


class JsonView:
    """The whole reply at its end, as one object."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def show_round(self, this_round: Round) -> None:
        """Waits for the end."""

    def finish(self, trace: Trace, pair: PairSummary) -> None:
        self._output.write(json.dumps(describe(trace, pair)) + "\n")


def figures(stats: Statistics, trace: Trace) -> str:
    """The statistics on one line."""
    parts = []
    if stats.acceptance_rate is not None:
        parts.append(
            f"{stats.num_accepted} of {stats.num_judged} judged candidates accepted ({stats.acceptance_rate:.0%})"
        )
    if len(stats.per_source) > 1:
        parts += [f"{source} {count.accepted} of {count.judged}" for source, count in stats.by_source.items()]
    if stats.tokens_per_round is not None and stats.tokens_per_second is not None:
        draft, verify, rest = stats.time_shares
        parts += [
            f"{stats.num_emitted} tokens in {stats.num_rounds} rounds, {stats.tokens_per_round:.2f} per round",
            f"{stats.tokens_per_second:.1f} tokens/s",
            f"draft {draft:.0%}, verify {verify:.0%}, rest {rest:.0%}",
            f"prompt read in {stats.prefill_seconds:.2f} s",
        ]
    reasons = ", ".join(trace.finish_reasons)
    return " · ".join([*parts, f"rule {trace.rule}", f"ended by {reasons}"])


def describe(trace: Trace, pair: PairSummary) -> dict[str, Any]:
    """The reply for a program: text, rounds and the figures they add up to; `text` is the first variant's."""
    stats = Statistics.of(trace.rounds)
    request = as_dict(trace.request)
    settings = request.pop("sampling") | request.pop("draft") | request
    rates = {
        name: getattr(stats, name) for name in ("acceptance_rate", "tokens_per_round", "tokens_per_second")
    }
    positions = {"per_position": [as_dict(each) for each in stats.per_position]}
    return {
        "text": trace.text,
        "texts": trace.texts,
        "finish_reason": trace.finish_reason,
        "finish_reasons": trace.finish_reasons,
        "rule": trace.rule,
        "rounds": [as_dict(each) for each in trace.rounds],
        "stats": as_dict(stats) | rates | positions,
        "pair": as_dict(pair),
        "settings": settings,
    }
