"""The settings of a run that are about its label and its target: parts of the table of options."""

from collections.abc import Iterable
from dataclasses import dataclass

from assay.errors import UsageError
from assay.run.answer_settings import AnswerSettings
from assay.run.option import OptionFields
from assay.run.option import option_field as _option

_MAX_LENGTH = 200

_labeled = OptionFields(group="Run")
_retriever = OptionFields(group="Built-in retriever", same_in_shards=True)
_target = OptionFields(group="Target")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSettings(AnswerSettings):
    """What the experimenter says about a run and compares it with; none of it changes a score."""

    label: str = _labeled(
        "",
        "A name for what you try, such as bm25-tuned. assay runs --label, compare and --compare-to "
        "find runs by it.",
        metavar="NAME",
        label="Label",
        placeholder="none",
    )
    tags: tuple[str, ...] = _labeled(
        (),
        "A fact to store with the run, such as chunks=512. Repeatable; in the variable, separate "
        "tags with ;",
        flag="--tag",
        metavar="KEY=VALUE",
        label="Tags, one KEY=VALUE per line",
        placeholder="chunks=512",
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
    allow_first_run: bool = _labeled(
        False,
        "If no run matches --compare-to yet, continue without it and skip the gates that name it. "
        "For a CI job that has not run on the main branch yet.",
        label="Go on without an earlier run",
        on_resume="free",
        needs="compare_to",
    )
    fail_on_regression: bool = _labeled(
        False,
        "Exit with 1 if the run is significantly worse than the one that it is compared with.",
        label="Fail on a regression",
        on_resume="free",
    )
    note: str = _labeled(
        "",
        "A sentence to store with the run, for later readers.",
        metavar="TEXT",
        label="Note",
        placeholder="none",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverSettings(LabelSettings):
    """How Assay's own retriever works, where it is the target."""

    embedder: str = _retriever(
        "",
        "An embedder instead of the built-in one, for builtin and purple targets: onnx:DIR "
        "(model.onnx and tokenizer.json), st:NAME|DIR (sentence-transformers), "
        "openai:MODEL[@URL], ollama:MODEL[@URL] or tei:URL. A server's API key is read from "
        "OPENAI_API_KEY or ASSAY_EMBEDDER_KEY.",
        metavar="SPEC",
        label="Embedder of builtin targets",
        placeholder="built in",
    )
    device: str = _retriever(
        "auto",
        "Where st: and onnx: embedders run: auto, cpu, cuda, cuda:N or mps. In assay.toml "
        "or the environment, it is ignored by targets without such an embedder.",
        metavar="DEVICE",
        label="Device of the embedder",
        same_in_shards=False,
        on_resume="free",
    )
    reranker: str = _retriever(
        "",
        "A cross-encoder that reranks the first 50 documents, for builtin and purple targets: "
        "st:NAME|DIR (sentence-transformers) or tei:URL. A server's API key is read from "
        "ASSAY_RERANKER_KEY.",
        metavar="SPEC",
        label="Reranker of builtin targets",
        placeholder="none",
    )
    bm25: tuple[str, ...] = _retriever(
        (),
        "Parameters of BM25, for builtin targets: k1=1.2, b=0.75, delta=0, title_weight=3, "
        "language=auto, stop_words=default, separated by commas.",
        metavar="KEY=VALUE",
        label="Parameters of BM25, one KEY=VALUE per line",
        placeholder="k1=1.2",
        separator=",",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings(RetrieverSettings):
    """How a target is asked, and where its answers hold what is measured."""

    mapping: tuple[str, ...] = _target(
        (),
        "Where the response has ids, scores, titles, texts, answer, citations, contexts or "
        "steps: ids=hits[].id in JMESPath, or ids=re:PATTERN with one group. For MCP also "
        "query=NAME, top_k=NAME and arg.NAME=VALUE. Repeatable; in the variable, separate "
        "mappings with ;",
        flag="--map",
        metavar="KEY=EXPR",
        label="Where the answer has its ids, one KEY=EXPR per line",
        placeholder="detected",
    )
    request: str = _target(
        "",
        'The body for a rest: target, in which "{query}" and "{top_k}" are replaced, or fields '
        "to add to the request of an openai: target. JSON or @FILE.",
        metavar="JSON|@FILE",
        label="Request body of a rest: or openai: target",
        placeholder="none: the URL contains {query}",
    )
    method: str = _target(
        "",
        "HTTP method of a rest: target. Default: POST with --request, else GET.",
        metavar="NAME",
        label="HTTP method of a rest: target",
        placeholder="POST with a body, else GET",
    )
    headers: tuple[str, ...] = _target(
        (),
        "A header for a rest: or openai: target, 'Name: value'. $NAME in it is read from the "
        "environment for each call and never stored. Repeatable; in the variable, one per line.",
        flag="--header",
        separator="\n",
        metavar="HEADER",
        label="Headers of a rest: or openai: target, one per line",
        placeholder="Authorization: Bearer $TOKEN",
    )
    preset: str = _target(
        "",
        "The search engine behind a rest: target, which sets request and mapping: elasticsearch, "
        "opensearch, solr, vespa or qdrant.",
        metavar="NAME",
        label="Preset of a rest: target",
        placeholder="none",
    )
    index: str = _target(
        "",
        "With --preset: the index or collection to search.",
        metavar="NAME",
        label="Index of the preset",
        placeholder="none",
        needs="preset",
    )
    chunk_separator: str = _target(
        "",
        "For an agent that returns ids of chunks: what separates a document's id from the number "
        "of its chunk, '#' for note-7#2; or re:PATTERN for what to remove at the end of an id. Not "
        "needed if the agent's contexts have doc_id.",
        metavar="TEXT",
        label="Chunk separator",
        placeholder="ids are those of documents",
        same_in_shards=True,
    )
