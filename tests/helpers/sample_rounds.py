"""Rounds written by hand, with every kind of token, for tests and pictures of the window."""

from __future__ import annotations

from collections.abc import Iterable

from app.records import Round, Source, Token


def make_rounds(
    script: Iterable[tuple[str, str, str]], finish: str | None = None, source: Source = "assistant"
) -> tuple[Round, ...]:
    """Rounds from (accepted, rejected, next) triples, the tokens of each separated by "|".

    Nothing accepted and nothing rejected makes a plain round; an empty third part ends inside the draft.
    """
    rounds: list[Round] = []
    position = 0
    steps = list(script)
    for index, (accepted_text, rejected_text, next_text) in enumerate(steps):
        accepted = [part for part in accepted_text.split("|") if part]
        rejected = [part for part in rejected_text.split("|") if part]
        candidates = [_token(part, judged=True, source=source) for part in accepted]
        candidates += [_token(part, judged=place == 0, source=source) for place, part in enumerate(rejected)]
        kind = None
        if next_text:
            kind = "recovered" if rejected else "bonus" if accepted else "plain"
        this_round = Round(
            index=index,
            position=position,
            draft_length=len(candidates),
            candidates=tuple(candidates),
            num_judged=len(accepted) + bool(rejected and next_text),
            num_accepted=len(accepted),
            next_token=_token(next_text, judged=True) if next_text else None,
            next_kind=kind,  # type: ignore[arg-type]
            pieces=tuple(accepted + ([next_text] if next_text else [])),
            draft_seconds=0.006 * len(candidates),
            verify_seconds=0.034,
            seconds=0.036 + 0.006 * len(candidates),
            prefill_seconds=0.12 if index == 0 else 0.0,
            finish_reason=finish if index == len(steps) - 1 else None,  # type: ignore[arg-type]
        )
        rounds.append(this_round)
        position += len(this_round.emitted)
    return tuple(rounds)


def a_round(
    num_candidates: int,
    num_accepted: int,
    source: Source = "assistant",
    draft_seconds: float = 0.01,
    verify_seconds: float = 0.03,
) -> Round:
    """A round of which only numbers and times matter."""
    rejects = num_accepted < num_candidates
    drafted = Token(2, "2 ", 0.5, 0.5, source)
    return Round(
        index=0,
        position=0,
        draft_length=num_candidates,
        candidates=(drafted,) * num_candidates,
        num_judged=num_accepted + rejects,
        num_accepted=num_accepted,
        next_token=Token(3, "3 ", 0.5),
        next_kind="recovered" if rejects else "bonus" if num_candidates else "plain",
        pieces=("2 ",) * num_accepted + ("3 ",),
        draft_seconds=draft_seconds,
        verify_seconds=verify_seconds,
        seconds=draft_seconds + verify_seconds,
    )


def _token(text: str, *, judged: bool, source: Source | None = None) -> Token:
    number = sum(text.encode())
    return Token(
        number, text, (0.02 + number % 97 / 100) if judged else None, 0.05 + number % 89 / 100, source
    )


BICYCLE = (
    ("A| bicycle", " is", " stays"),
    (" upright| because", "", " of"),
    ("", " the| force", " two"),
    (" things|:", "", " the"),
    (" front| wheel", " is|,", " steers"),
    (" into", " a| turn", " the"),
    (" fall|,| and", "", " the"),
    ("", "", " mass"),
    ("", "", " of"),
    (" the", " bike|.", " rider"),
    (" follows|.", "", "\n\n"),
    ("When| you", " ride|,", " lean"),
    (" to| the| left|,", "", " the"),
    (" wheel| turns", "", " left"),
    (" as| well", " as|.", ","),
    (" which", " is| the", " brings"),
    (" the| wheels| back", "", " under"),
    (" you|.", "", " At"),
)

LIST = (
    ("1|.", "", " Start"),
    (" with| the", " most| important", " sounds"),
    ("|.", "", "\n"),
    ("2|.", " Learn", " Read"),
    (" something| short", "", " every"),
    (" day", ".|\n", ","),
    (" even| a", "", " menu"),
    (".|\n|3|.", "", " Speak"),
    (" early", " and| often", ":"),
    (" mistakes", " are", " teach"),
    (" more| than", " the", " silence"),
    (".", "", "\n"),
)
