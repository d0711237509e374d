"""The settings of a run that are about its target: parts of `RunConfig`'s table of options."""

from dataclasses import dataclass

from assay.run.labels import LabelSettings
from assay.run.option import option_field as _option


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
        "Where st: and --model embedders run: auto, cpu, cuda, cuda:N or mps.",
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
    bm25_k1: float | None = _option(
        None,
        "BM25's term-frequency saturation, for builtin targets.",
        metavar="K1",
        label="BM25 k1",
        placeholder="default",
        widget="number",
        low=0,
        high=100,
        same_in_shards=True,
        group="Built-in retriever",
    )
    bm25_b: float | None = _option(
        None,
        "BM25's length normalization from 0 to 1, for builtin targets.",
        metavar="B",
        label="BM25 b",
        placeholder="default",
        widget="number",
        low=0,
        high=1,
        same_in_shards=True,
        group="Built-in retriever",
    )


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
