"""The settings of a run that are about its label and its target: parts of the table of options."""

from collections.abc import Iterable
from dataclasses import dataclass

from assay.errors import UsageError
from assay.run.answer_settings import AnswerSettings
from assay.run.option import option_field as _option

_MAX_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSettings(AnswerSettings):
    """What the experimenter says about a run and compares it with; none of it changes a score."""

    label: str = _option(
        "",
        "A name for what is tried, such as bm25-tuned: assay runs --label finds the runs that "
        "have it.",
        metavar="NAME",
        label="Label",
        placeholder="none",
        group="Run",
    )
    tags: tuple[str, ...] = _option(
        (),
        "A fact to keep with the run, such as chunks=512. Repeatable; in the variable, separate "
        "tags with ;",
        flag="--tag",
        param="tag",
        env="ASSAY_TAG",
        metavar="KEY=VALUE",
        label="Tags, one KEY=VALUE per line",
        placeholder="chunks=512",
        widget="lines",
        group="Run",
    )
    compare_to: str = _option(
        "",
        "Compare with an earlier run on the same data: the newest complete one with this label or "
        "git branch, or a run's folder or name. Gates may name it: ndcg@10>=main-0.01.",
        metavar="LABEL|BRANCH|RUN",
        label="Compare with an earlier run",
        placeholder="none",
        on_resume="free",
        group="Usual options",
    )
    allow_first_run: bool = _option(
        False,
        "If no run matches --compare-to yet, go on without it: gates that name it are not checked, "
        "and a line says so. For a CI job that has not run on the main branch yet.",
        label="Go on without an earlier run",
        on_resume="free",
        needs="compare_to",
        group="Run",
    )
    note: str = _option(
        "",
        "A sentence to keep with the run, for those who read it later.",
        metavar="TEXT",
        label="Note",
        placeholder="none",
        group="Run",
    )


def parse_tags(tags: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` each, by key. Raises `UsageError` for one without a key, or given twice."""
    found: dict[str, str] = {}
    for text in tags:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise UsageError(f"tag {text!r} is not KEY=VALUE; write, for example: chunks=512")
        if key in found:
            raise UsageError(
                f"tag {key!r} is given twice, as {found[key]!r} and {value!r}; keep one of them"
            )
        found[key] = value
    return found


def check_labels(settings: LabelSettings) -> None:
    """Raise `UsageError` for a label or tag that could not be found again."""
    parse_tags(settings.tags)
    for name, text in (("label", settings.label), *(("tag", each) for each in settings.tags)):
        if len(text) > _MAX_LENGTH or not text.isprintable():
            raise UsageError(
                f"{name} {text[:40]!r} must be one line of at most {_MAX_LENGTH} characters; "
                "longer texts go into --note"
            )


def _bm25_number(help_text: str, name: str, high: float) -> float | None:
    field: float | None = _option(
        None,
        help_text,
        metavar=name.replace(" ", "_").upper(),
        label=f"BM25 {name}",
        placeholder="default",
        widget="number",
        low=0,
        high=high,
        same_in_shards=True,
        group="Built-in retriever",
    )
    return field


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverSettings(LabelSettings):
    """How Assay's own retriever works, where it is the target."""

    embedder: str = _option(
        "",
        "Another embedder than the built-in one, for builtin and purple targets: st:NAME|DIR "
        "(sentence-transformers), openai:MODEL[@URL], ollama:MODEL[@URL] or tei:URL.",
        metavar="SPEC",
        label="Embedder of builtin targets",
        placeholder="built in",
        same_in_shards=True,
        group="Built-in retriever",
    )
    model: str = _option(
        "",
        "A folder with model.onnx and tokenizer.json, in place of the built-in embedder.",
        metavar="DIR",
        label="Folder of an ONNX embedder",
        placeholder="none",
        same_in_shards=True,
        group="Built-in retriever",
    )
    device: str = _option(
        "auto",
        "Where st: and --model embedders run: auto, cpu, cuda, cuda:N or mps. As a default for all "
        "runs, ignored by targets without such an embedder.",
        metavar="DEVICE",
        label="Device of the embedder",
        on_resume="free",
        group="Built-in retriever",
    )
    reranker: str = _option(
        "",
        "A cross-encoder that orders the first 50 documents anew, for builtin and purple targets: "
        "st:NAME|DIR (sentence-transformers) or tei:URL.",
        metavar="SPEC",
        label="Reranker of builtin targets",
        placeholder="none",
        same_in_shards=True,
        group="Built-in retriever",
    )
    bm25_k1: float | None = _bm25_number(
        "BM25's term-frequency saturation, for builtin targets.", "k1", 100
    )
    bm25_b: float | None = _bm25_number(
        "BM25's length normalization from 0 to 1, for builtin targets.", "b", 1
    )
    bm25_delta: float | None = _bm25_number(
        "What a word is worth to BM25 at least where it occurs (BM25+), for builtin targets.",
        "delta",
        100,
    )
    bm25_title_weight: float | None = _bm25_number(
        "How often a word of the title counts for BM25 (BM25F), for builtin targets.",
        "title weight",
        100,
    )
    bm25_language: str = _option(
        "",
        "The language whose stems and stop words BM25 uses, by name or code, for builtin targets: "
        "auto detects it, none stems nothing.",
        metavar="NAME",
        label="BM25 language",
        placeholder="auto",
        same_in_shards=True,
        group="Built-in retriever",
    )
    bm25_stop_words: str = _option(
        "",
        "The words that BM25 leaves out, for builtin targets: default for those of the language, "
        "none, or words with commas between them.",
        metavar="WORDS",
        label="BM25 stop words",
        placeholder="default",
        same_in_shards=True,
        group="Built-in retriever",
    )

    def bm25_settings(self) -> dict[str, float | str]:
        """Those that were chosen, by their names in `Bm25Settings`."""
        chosen = {
            "k1": self.bm25_k1,
            "b": self.bm25_b,
            "delta": self.bm25_delta,
            "title_weight": self.bm25_title_weight,
            "language": self.bm25_language or None,
            "stop_words": self.bm25_stop_words or None,
        }
        return {name: value for name, value in chosen.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings(RetrieverSettings):
    """How a target is asked, and where its answers hold what is measured."""

    mapping: tuple[str, ...] = _option(
        (),
        "Where the answer has its ids, scores, titles, texts, answer, citations or contexts: "
        "ids=hits[].id, in JMESPath, or ids=re:PATTERN with one group. For MCP also query=NAME, "
        "top_k=NAME and arg.NAME=VALUE. Repeatable; in the variable, separate mappings with ;",
        flag="--map",
        param="map",
        env="ASSAY_MAP",
        metavar="KEY=EXPR",
        label="Where the answer has its ids, one KEY=EXPR per line",
        placeholder="detected",
        widget="lines",
        group="Target",
    )
    request: str = _option(
        "",
        'JSON or @FILE: the body for a rest: target, where "{query}" and "{top_k}" '
        "become the query and the number, or fields to add to the request of an openai: target.",
        metavar="JSON|@FILE",
        label="Request body of a rest: or openai: target",
        placeholder="none: the URL contains {query}",
        group="Target",
    )
    method: str = _option(
        "",
        "HTTP method of a rest: target. Default: POST with --request, else GET.",
        metavar="NAME",
        label="HTTP method of a rest: target",
        placeholder="POST with a body, else GET",
        group="Target",
    )
    headers: tuple[str, ...] = _option(
        (),
        "A header for a rest: or openai: target, 'Name: value'. $NAME in it is read from the "
        "environment for each call and never stored. Repeatable; in the variable, one per line.",
        flag="--header",
        param="header",
        env="ASSAY_HEADER",
        separator="\n",
        metavar="HEADER",
        label="Headers of a rest: or openai: target, one per line",
        placeholder="Authorization: Bearer $TOKEN",
        widget="lines",
        group="Target",
    )
    preset: str = _option(
        "",
        "How to ask a known search engine at a rest: target: elasticsearch, opensearch, solr, "
        "vespa or qdrant.",
        metavar="NAME",
        label="Preset of a rest: target",
        placeholder="none",
        group="Target",
    )
    index: str = _option(
        "",
        "With --preset: the index or collection to search.",
        metavar="NAME",
        label="Index of the preset",
        placeholder="none",
        needs="preset",
        group="Target",
    )
    chunk_separator: str = _option(
        "",
        "What separates a document's id from the number of its chunk, for an agent that returns "
        "ids of chunks: '#' for note-7#2; or re:PATTERN for what to remove at the end of an id. "
        "A field doc_id in the agent's contexts needs no option.",
        metavar="TEXT",
        label="Chunk separator",
        placeholder="ids are those of documents",
        same_in_shards=True,
        group="Target",
    )
