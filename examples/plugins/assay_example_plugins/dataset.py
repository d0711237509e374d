"""`titles:FOLDER`: each text file is a document, and its first line a question that it answers."""

from pathlib import Path

from assay import Dataset


def load_titles(folder):
    texts = {path.stem: path.read_text(encoding="utf-8") for path in Path(folder).glob("*.txt")}
    parts = {name: text.partition("\n") for name, text in sorted(texts.items())}
    return Dataset.from_dicts(
        queries={name: title.strip() for name, (title, _, _) in parts.items()},
        judgments={name: [name] for name in parts},
        documents={name: {"title": t.strip(), "text": b} for name, (t, _, b) in parts.items()},
        answers={name: body.strip() for name, (_, _, body) in parts.items()},
        name=f"titles:{folder}",
    )
