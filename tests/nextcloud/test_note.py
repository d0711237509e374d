"""Documents become notes that are recognized, whatever the app does to titles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nextcloud.notes_server import NotesServer

from assay.data.dataset import Document
from assay.errors import DataError, UsageError
from assay.nextcloud.note import (
    Note,
    marker_of,
    plan_note,
    plan_notes,
    validate_category,
)

IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
CATEGORY = "c"


def stored(document: Document, server: NotesServer) -> Note:
    planned = plan_note(document)
    return Note.from_json(server.add(planned.title, planned.content, CATEGORY).data([]))


def test_a_note_is_called_after_its_document() -> None:
    planned = plan_note(Document("MED-10", "Statin use", "Text."))
    assert (planned.title, planned.content) == ("[MED-10] Statin use", "Text.")


@pytest.mark.parametrize("title", ["Why? How: so/and", "long " * 40])
def test_a_title_that_the_app_would_cut_is_kept_in_the_text(title: str) -> None:
    planned = plan_note(Document("d1", title, "Text."))
    assert planned.content == f"{title.strip()}\n\nText."


@given(IDS, st.text(max_size=150), st.text(max_size=80))
def test_the_note_of_every_document_is_recognized(doc_id: str, title: str, text: str) -> None:
    document = Document(doc_id, title, text)
    note = stored(document, NotesServer())
    assert plan_note(document).matches(note)
    assert marker_of(note.title) == doc_id


def test_a_numbered_title_is_still_ours() -> None:
    server, document = NotesServer(), Document("d1", "t" * 200, "Text.")
    first, second = stored(document, server), stored(document, server)
    assert second.title != first.title
    assert plan_note(document).matches(second)


def test_another_title_or_text_is_not_ours() -> None:
    note = stored(Document("d1", "Title", "Text."), NotesServer())
    assert not plan_note(Document("d1", "Title two", "Text.")).matches(note)
    assert not plan_note(Document("d1", "Title", "Texts.")).matches(note)


def test_ids_that_titles_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(DataError, match="'a/b' looks like 'ab' in the title"):
        plan_notes([Document("ab", "", "Text."), Document("a/b", "", "Text.")])


def test_an_id_that_no_title_can_hold_is_refused() -> None:
    with pytest.raises(DataError, match="does not fit into the title"):
        plan_notes([Document("x" * 120, "", "Text.")])


@pytest.mark.parametrize("category", ["a:b", ".hidden", "a//b", "a/ b", "", "/a"])
def test_a_category_that_would_be_kept_under_another_name_is_refused(category: str) -> None:
    with pytest.raises(UsageError, match="cannot store the category"):
        validate_category(category)
