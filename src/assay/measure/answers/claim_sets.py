"""Claims with a label, for measuring what checks answers: bundled ones and those of others.

| set | claims | labels |
|---|---|---|
| `notes` | sentences of the reference answers, and the same with one change | made by rule |
| SciFact | claims that experts wrote about abstracts, in BEIR's archive | by people |
| a table | `claim`, `doc` and `label` 1 or 0, as LLM-AggreFact has them | as given |
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.data.archive import archive_files
from assay.data.dataset import Dataset
from assay.data.load import load_dataset
from assay.data.table import read_table, table_suffix
from assay.data.text_file import TextFile, plain_file, records, short_repr
from assay.errors import DataError
from assay.measure.answers.contradiction.perturbation import KINDS, contradict, names_in
from assay.text import sentences

SUPPORTED, CONTRADICTED, UNRELATED = "supported", "contradicted", "unrelated"
_TRUE = {"1", "1.0", "true", "supported", "support", "yes"}
_FALSE = {"0", "0.0", "false", "unsupported", "contradicted", "contradict", "no"}


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


def read_claims(name: str) -> list[LabeledClaim]:
    """The claims of `notes`, of SciFact's archive, or of a table.

    Raises:
        DataError: the file has no labeled claim.
    """
    if name == "notes":
        return notes_claims()
    path = Path(name).expanduser()
    if table_suffix(path) in (".zip", "") and path.exists():
        return scifact_claims(path)
    return table_claims(path)


def notes_claims(seed: int = 0) -> list[LabeledClaim]:
    """For each change that a sentence of a reference answer of `notes` allows: the sentence and
    what the change makes of it.
    """
    notes = load_dataset("notes")
    names = names_in([each.text for each in notes.documents.values()])
    rng = random.Random(seed)
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


def scifact_claims(path: Path, split: str = "") -> list[LabeledClaim]:
    """SciFact's claims with their labels, from BEIR's archive or its unpacked folder.

    Parameters:
        path: the zip or the folder.
        split: `train` or `test` (SciFact's own development set); all by default.
    """
    files = _beir_files(path)
    documents = {record.identifier("_id"): record for record in records(files["corpus.jsonl"])}
    wanted = _queries_of(files, split) if split else None
    claims = []
    for record in records(files["queries.jsonl"]):
        query_id = record.identifier("_id")
        labels: Any = record.fields.get("metadata") or {}
        for doc_id, evidence in labels.items() if isinstance(labels, dict) else ():
            if doc_id not in documents or (wanted is not None and query_id not in wanted):
                continue
            document = documents[doc_id]
            label = CONTRADICTED if evidence[0]["label"] == "CONTRADICT" else SUPPORTED
            sources = (document.text("title"), document.text("text"))
            claims.append(LabeledClaim(record.text("text"), sources, label, doc_id))
    if not claims:
        raise DataError("has no claim with a label in queries.jsonl", file=path)
    return claims


def _beir_files(path: Path) -> dict[str, TextFile]:
    if path.is_dir():
        found = {each: plain_file(path / each) for each in ("corpus.jsonl", "queries.jsonl")}
        return found | {f"qrels/{each.name}": plain_file(each) for each in path.glob("qrels/*.tsv")}
    files = {name.partition("/")[2]: file for name, file in archive_files(path).items()}
    for name in ("corpus.jsonl", "queries.jsonl"):
        if name not in files:
            raise DataError(f"has no {name}", file=path)
    return files


def _queries_of(files: dict[str, TextFile], split: str) -> set[str]:
    return {line.split("\t")[0] for _, line in files[f"qrels/{split}.tsv"].lines()}


def table_claims(path: Path) -> list[LabeledClaim]:
    """The rows of a table with `claim`, `doc` (a text, or a list of texts) and `label`.

    A label is 1 or 0, true or false, `supported`, `contradicted` or `unsupported`.
    """
    claims = []
    for number, row in enumerate(read_table(path), start=1):
        if isinstance(row, DataError):
            raise row
        claim, sources = row.fields.get("claim"), row.fields.get("doc", row.fields.get("sources"))
        label = str(row.fields.get("label", "")).strip().lower()
        if not isinstance(claim, str) or not isinstance(sources, str | list):
            raise row.refusal("has no 'claim' and 'doc' with texts; both are needed")
        if label not in _TRUE | _FALSE:
            raise row.refusal(f"'label' must be 1 or 0, got {short_repr(row.fields.get('label'))}")
        word = SUPPORTED if label in _TRUE else CONTRADICTED if "contra" in label else "unsupported"
        texts = (sources,) if isinstance(sources, str) else tuple(map(str, sources))
        claims.append(LabeledClaim(claim, texts, word, str(number)))
    if not claims:
        raise DataError("has no row", file=path)
    return claims


def unrelated_claims(claims: Sequence[LabeledClaim], seed: int = 0) -> list[LabeledClaim]:
    """Each supported claim with the sources of another one."""
    supported = [each for each in claims if each.supported]
    groups = {each.group: each.sources for each in claims}
    rng = random.Random(seed)
    return [
        LabeledClaim(each.claim, groups[rng.choice([g for g in groups if g != each.group])],
                     UNRELATED, each.group)
        for each in supported
    ]  # fmt: skip


def corpus_claims(dataset: Dataset, seed: int = 0) -> Iterator[LabeledClaim]:
    """Titles and last sentences of documents against the rest of them, as they are and changed.

    What an abstract concludes, the rest of it supports; so no label is needed. Short documents,
    and sentences without anything to change, are left out.
    """
    rng = random.Random(seed)
    for document in dataset.documents.values():
        said = sentences(document.text)
        if len(said) < 4:
            continue
        title, last = document.title, said[-1]
        for claim, rest in ((title, said), (last, [title, *said[:-1]])):
            kind = rng.choice(("negation", "opposite", "opposite"))
            changed = contradict(claim, rng, (kind,)) if len(claim.split()) <= 40 else None
            if changed is not None:
                sources = (rest[0], " ".join(rest[1:]))
                yield LabeledClaim(claim, sources, SUPPORTED, document.id, kind)
                yield LabeledClaim(changed[0], sources, CONTRADICTED, document.id, kind)
