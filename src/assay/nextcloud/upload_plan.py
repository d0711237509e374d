"""What of an upload is left to do.

That is known from two places. The mapping says which note stands for which document. A note that
was made just before a kill is not in it, and is known by its mark and its content.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.nextcloud.note import Draft, Note, mark_of


@dataclass(frozen=True, slots=True)
class Plan:
    create: Sequence[Draft]
    update: Sequence[tuple[Draft, Note]]
    adopt: Mapping[str, int]
    unchanged: Mapping[str, int]
    copies: Sequence[int]
    outdated: Mapping[str, int]
    foreign: int


def plan_upload(drafts: Sequence[Draft], mapping: Mapping[str, int], notes: Iterable[Note]) -> Plan:
    """What is left to do, given the notes of the category as they are now."""
    there = {note.id: note for note in notes}
    wanted = {draft.doc_id for draft in drafts}
    outdated = {d: n for d, n in mapping.items() if d not in wanted and n in there}
    spoken_for = {mapping[doc_id] for doc_id in wanted & mapping.keys()} | set(outdated.values())
    nameless: dict[tuple[str, str], list[int]] = {}
    for note in there.values():
        if note.id not in spoken_for:
            nameless.setdefault((mark_of(note.title), note.content), []).append(note.id)
    create: list[Draft] = []
    update: list[tuple[Draft, Note]] = []
    adopt: dict[str, int] = {}
    unchanged: dict[str, int] = {}
    copies: list[int] = []
    for draft in drafts:
        known = there.get(mapping.get(draft.doc_id, -1))
        same = nameless.pop((draft.mark, draft.content), [])
        if known is not None and draft.is_in(known):
            unchanged[draft.doc_id] = known.id
        elif known is not None:
            update.append((draft, known))
        elif same:
            adopt[draft.doc_id] = same.pop(0)
        else:
            create.append(draft)
        copies += same
    foreign = sum(map(len, nameless.values()))
    return Plan(create, update, adopt, unchanged, copies, outdated, foreign)
