"""The reply draws what the rounds say: colours, ghosts, copies and the token under the pointer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QTextCharFormat
from pytestqt.qtbot import QtBot

from app.records import Round
from app.spans import spans
from app.ui.reply_view import ReplyView
from app.ui.theme import DARK, LIGHT
from tests.helpers.sample_rounds import BICYCLE, LIST, make_rounds

Line = QTextCharFormat.UnderlineStyle


@pytest.fixture
def view(qtbot: QtBot) -> ReplyView:
    view = ReplyView(LIGHT, "keep")
    qtbot.addWidget(view)
    view.resize(600, 400)
    view.show()
    return view


def drawn(view: ReplyView) -> list[tuple[str, str]]:
    """(kind, text) of every stretch of the document, read back from its character formats alone."""
    kinds = {
        (mark.tint or "", mark.struck, mark.line if mark.line_colour else Line.NoUnderline): kind
        for kind, mark in LIGHT.marks.items()
    }
    stretches = []
    block = view.document().begin()
    while block.isValid():
        for each in block:
            fragment = each.fragment()
            form = fragment.charFormat()
            tint = form.background().color().name() if form.background().style().value else ""
            stretches.append((kinds[tint, form.fontStrikeOut(), form.underlineStyle()], fragment.text()))
        block = block.next()
    return stretches


def by_character(stretches: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(kind, character) of everything visible; spaces and breaks carry no mark."""
    return [(kind, character) for kind, text in stretches for character in text if not character.isspace()]


def replayed(rounds: tuple[Round, ...]) -> Iterator[tuple[str, str]]:
    """What must be drawn, from the rounds' counts and texts alone."""
    for each in rounds:
        for place, candidate in enumerate(each.candidates):
            if place < each.num_accepted:
                yield "accepted", candidate.text
            else:
                yield "rejected", candidate.text.replace("\n", "↵")
        if each.next_token is not None:
            yield str(each.next_kind), each.next_token.text


@pytest.mark.parametrize("script", [BICYCLE, LIST])
def test_colours_equal_an_independent_replay_of_the_rounds(view: ReplyView, script: tuple) -> None:
    rounds = make_rounds(script)
    view.add_rounds(rounds)
    assert by_character(drawn(view)) == by_character(replayed(rounds))


def test_one_batch_draws_the_same_as_many(view: ReplyView, qtbot: QtBot) -> None:
    rounds = make_rounds(BICYCLE)
    view.add_rounds(rounds)
    single = ReplyView(LIGHT, "keep")
    qtbot.addWidget(single)
    for each in rounds:
        single.add_rounds([each])
    assert drawn(single) == drawn(view)


def test_the_text_is_the_emitted_pieces_alone(view: ReplyView) -> None:
    rounds = make_rounds(BICYCLE)
    view.add_rounds(rounds)
    assert view.text() == "".join(piece for each in rounds for piece in each.pieces)


@pytest.mark.parametrize("ghosts", ["keep", "latest", "hide"])
def test_copying_everything_leaves_the_ghosts_out(view: ReplyView, ghosts: str) -> None:
    view.show_ghosts(ghosts)
    view.add_rounds(make_rounds(BICYCLE))
    view.selectAll()
    assert view.createMimeDataFromSelection().text() == view.text()


def test_a_selection_that_begins_inside_a_ghost_copies_from_its_end(view: ReplyView) -> None:
    view.add_rounds(make_rounds([("A| cat", " lion", " sat")]))
    cursor = view.textCursor()
    cursor.setPosition(len("A cat li"))
    cursor.setPosition(len("A cat lion sat"), cursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
    assert view.createMimeDataFromSelection().text() == " sat"


def test_ghosts_can_be_hidden_and_shown_again(view: ReplyView) -> None:
    view.add_rounds(make_rounds(BICYCLE))
    with_ghosts = drawn(view)
    view.show_ghosts("hide")
    assert not [text for kind, text in drawn(view) if kind == "rejected"]
    assert view.toPlainText() == view.text()
    view.show_ghosts("keep")
    assert drawn(view) == with_ghosts


def test_only_the_latest_ghosts_stay_when_asked(view: ReplyView) -> None:
    view.show_ghosts("latest")
    for each in make_rounds([("A", " dog", " cat"), ("", " ran", " sat"), (" down", "", ".")]):
        view.add_rounds([each])
        ghosts = "".join(text for kind, text in drawn(view) if kind == "rejected").strip()
        assert ghosts == "".join(token.text for token in each.rejected).strip()
    assert view.toPlainText() == "A cat sat down."


def test_every_place_knows_its_token(view: ReplyView) -> None:
    rounds = make_rounds(BICYCLE)
    view.add_rounds(rounds)
    place = 0
    for each in rounds:
        for span in spans(each):
            for offset in range(len(span.text)):
                found = view._index.at(place + offset)
                assert found is not None and found.token is span.token
            place += len(span.text)
    assert view._index.at(place) is None


def test_wide_characters_do_not_shift_the_places(view: ReplyView) -> None:
    view.add_rounds(make_rounds([("😀| one", " 𝄞", " two"), ("\r\n| x", "", " y")]))
    text = view.toPlainText()
    place = len(text.encode("utf-16-le")) // 2 - 1
    found = view._index.at(place)
    assert found is not None and found.token.text == " y"


def test_the_pointer_finds_the_token_under_it(view: ReplyView) -> None:
    view.add_rounds(make_rounds([("Alpha| beta", "", " gamma")]))
    found = view.span_at(QPoint(4, 12))
    assert found is not None and found.token.text == "Alpha"
    assert view.span_at(QPoint(590, 390)) is None


def test_markup_in_a_reply_stays_text(view: ReplyView) -> None:
    hostile = '<img src="file:///etc/passwd"><b>bold</b><script>x</script>'
    view.add_rounds(make_rounds([("", "", hostile)]))
    assert view.toPlainText() == hostile


def test_a_new_theme_recolours_what_is_there(view: ReplyView) -> None:
    view.add_rounds(make_rounds(BICYCLE))
    before = view.toPlainText()
    view.take_theme(DARK)
    assert view.toPlainText() == before
    tint = next(iter(view.document().begin())).fragment().charFormat().background().color().name()
    assert tint == DARK.marks["accepted"].tint


def test_adding_costs_the_same_in_a_long_reply(view: ReplyView, monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing means appending: what stands is neither cleared nor inserted again."""
    view.add_rounds(make_rounds(BICYCLE * 40))
    monkeypatch.setattr(view, "_redraw", lambda: pytest.fail("drawn again"))
    blocks = view.document().blockCount()
    first = view.document().begin().layout().boundingRect()
    view.add_rounds(make_rounds([(" and| so", " on", " forth")]))
    assert view.document().blockCount() == blocks
    assert view.document().begin().layout().boundingRect() == first
