"""Claims with known labels: sentences of `notes` with one change, and SciFact's."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.answers.judge_controls import KINDS, contradict, names_in
from assay.data.load import load_dataset
from assay.data.text_file import Record, TextFile, archive_files, plain_file, records, short_repr
from assay.errors import DataError
from assay.text import sentences

SUPPORTED, CONTRADICTED = "supported", "contradicted"


@dataclass(frozen=True, slots=True)
class LabeledClaim:
    """A claim, its sources, and whether they support it.

    `label` is `supported`, `contradicted`, `unrelated`, or `unsupported` where the set does not say
    which. Claims of one `group` share a source and belong on one side of a split. `kind` says
    what was changed, where a rule made the claim.
    """

    claim: str
    sources: tuple[str, ...]
    label: str
    group: str
    kind: str = ""

    @property
    def supported(self) -> bool:
        """Whether the sources support the claim."""
        return self.label == SUPPORTED


def notes_claims() -> list[LabeledClaim]:
    """For each change that a sentence of a reference answer of `notes` allows: the sentence and
    what the change makes of it.
    """
    notes = load_dataset("notes")
    names = names_in([each.text for each in notes.documents.values()])
    rng = random.Random(0)
    claims: list[LabeledClaim] = []
    for reference in notes.answers.values():
        sources = tuple(
            text
            for doc_id in reference.documents
            for text in (notes.documents[doc_id].title, notes.documents[doc_id].text)
        )
        for sentence in sentences(reference.answer or ""):
            for kind in KINDS:
                changed = contradict(sentence, rng, (kind,), names)
                if changed is not None:
                    group = reference.query_id
                    claims.append(LabeledClaim(sentence, sources, SUPPORTED, group, kind))
                    claims.append(LabeledClaim(changed[0], sources, CONTRADICTED, group, kind))
    return claims


def scifact_claims(path: Path) -> list[LabeledClaim]:
    """SciFact's claims with their labels, from BEIR's archive or its unpacked folder."""
    files = _beir_files(path)
    documents = {record.identifier("_id"): record for record in records(files["corpus.jsonl"])}
    claims = []
    for record in records(files["queries.jsonl"]):
        labels: Any = record.fields.get("metadata") or {}
        for doc_id, evidence in labels.items() if isinstance(labels, dict) else ():
            if doc_id not in documents:
                continue
            document = documents[doc_id]
            label = _scifact_label(record, evidence)
            sources = (document.text("title"), document.text("text"))
            claims.append(LabeledClaim(record.text("text"), sources, label, doc_id))
    if not claims:
        raise DataError("has no claim with a label in queries.jsonl", file=path)
    return claims


def _scifact_label(record: Record, evidence: Any) -> str:
    """The label of a claim's evidence in one document, which is that of its first sentences."""
    first = evidence[0] if isinstance(evidence, list) and evidence else None
    label = first.get("label") if isinstance(first, dict) else None
    if not isinstance(label, str):
        raise record.refusal(
            "the evidence under 'metadata' must be a list of objects with a 'label', got "
            f"{short_repr(evidence)}"
        )
    return CONTRADICTED if label == "CONTRADICT" else SUPPORTED


def _beir_files(path: Path) -> dict[str, TextFile]:
    names = ("corpus.jsonl", "queries.jsonl")
    if path.is_dir():
        return {name: plain_file(path / name) for name in names}
    files = {name.partition("/")[2]: file for name, file in archive_files(path).items()}
    for name in names:
        if name not in files:
            raise DataError(f"has no {name}", file=path)
    return files
