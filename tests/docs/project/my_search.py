"""The reader's own application: word overlap over the bundled notes."""

import assay

NOTES = assay.load_dataset("notes").documents


def find(query: str, top_k: int) -> list[str]:
    words = set(query.lower().split())
    score = {id: len(words & set(note.full_text.lower().split())) for id, note in NOTES.items()}
    return sorted(score, key=lambda id: -score[id])[:top_k]
