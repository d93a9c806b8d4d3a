"""The rows of the pair picker: everything that could be chosen, each with its reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from app.models.finder import Candidate, known
from app.records import STARTER, STARTER_NAMES, ModelSpec
from app.ui.rows import Row
from app.words import count, size

NOBODY = Row("", "No assistant", "The target writes alone, or drafts from the text so far.")


def target_rows(
    here: Mapping[str, ModelSpec], sizes: Mapping[str, int], others: Collection[str]
) -> Iterator[Row]:
    """What is on this disk, what was chosen elsewhere, and known models that could be fetched."""
    for key, spec in here.items():
        yield Row(key, title(spec, STARTER_NAMES[0]), _where(spec), _size(sizes.get(key)))
    for key in others:
        if key not in here:
            yield Row(key, key, "Not on this disk yet")
    targets = {each.target for each in known().pairs}
    for repo in sorted(targets - here.keys() - set(others)):
        model = known().models[repo]
        detail = (
            f"Not on this disk · {count(model.parameters)} weights · {_licence(model.licence, model.gated)}"
        )
        yield Row(repo, repo, detail, _size(model.weights("auto")), dimmed=True)


def assistant_rows(
    found: Sequence[Candidate], here: Mapping[str, ModelSpec], others: Collection[str]
) -> Iterator[Row]:
    """Nobody, and all candidates with their verdict: none is left out (P5)."""
    yield NOBODY
    for each in found:
        name = title(here[each.repo], STARTER_NAMES[1]) if each.repo in here else each.repo
        tag = each.prediction.words if each.prediction and each.verdict != "refused" else ""
        dimmed = each.verdict == "refused" or each.fits is False
        yield Row(each.repo, name, _about(each), tag, dimmed)
    listed = {each.repo for each in found}
    for key in others:
        if key not in listed:
            yield Row(key, key, "Not on this disk yet")


def _about(each: Candidate) -> str:
    parts = [
        "" if each.present else "Not on this disk",
        f"does not fit: the pair takes {size(each.bytes)}" if each.fits is False else "",
        each.reason.rstrip("."),
        f"{count(each.parameters)} weights" if each.parameters else "",
        _licence(each.licence, each.gated) if each.licence else "",
    ]
    words = " · ".join(filter(None, parts))
    return words[0].upper() + words[1:]


def title(spec: ModelSpec, starter: str) -> str:
    """A model's name in a list."""
    if spec.source == STARTER:
        return starter
    return Path(spec.source).name if Path(spec.source).is_absolute() else spec.key


def _where(spec: ModelSpec) -> str:
    if spec.source == STARTER:
        return "Comes with Tandem"
    path = Path(spec.source)
    return str(path.parent) if path.is_absolute() else f"On this disk, revision {spec.revision[:8]}"


def _licence(name: str, gated: bool) -> str:
    return f"{name}, gated" if gated else name


def _size(number: int | None) -> str:
    return size(number) if number else ""
