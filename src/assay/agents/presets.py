"""`--preset NAME --index INDEX`: how to ask search engines that many people run.

A preset is one entry in `PRESETS`: the path below the address of the service, the body, and the
mapping. `{index}` stands for `--index`. What the user gives by `--request` or `--map` wins.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.errors import UsageError, did_you_mean

_INDEX = re.compile(r"[\w.,*@+-]{1,255}")


@dataclass(frozen=True, slots=True)
class Preset:
    """One search engine.

    Parameters:
        path: follows the address of the service.
        request: the JSON body; empty for a GET.
        mapping: where the answer has its ids and scores.
        note: what the user should know about it.
    """

    path: str
    request: str = ""
    mapping: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def with_index(self, base: str, index: str) -> tuple[str, str]:
        """The URL and the body for the service at `base`. Raises `UsageError` for a bad index."""
        if not _INDEX.fullmatch(index):
            got = f"got {index[:80]!r}" if index else "it is missing"
            raise UsageError(f"--preset needs --index, the name of one index; {got}")
        url = base.rstrip("/") + self.path.replace("{index}", index)
        return url, self.request.replace("{index}", index)


_LUCENE = Preset(
    path="/{index}/_search",
    request='{"query": {"multi_match": {"query": "{query}", "lenient": true}}, '
    '"size": "{top_k}", "_source": false}',
    mapping={"ids": "hits.hits[]._id", "scores": "hits.hits[]._score"},
    note="all text fields are searched; a document's _id is its id",
)

PRESETS: dict[str, Preset] = {
    "elasticsearch": _LUCENE,
    "opensearch": _LUCENE,
    "solr": Preset(
        path="/solr/{index}/select",
        request='{"query": "{query}", "limit": "{top_k}", "fields": ["id", "score"], '
        '"params": {"defType": "edismax", "q.op": "OR", "wt": "json"}}',
        mapping={"ids": "response.docs[].id", "scores": "response.docs[].score"},
        note="searches the collection's default field (df); a document's id is its id",
    ),
    "vespa": Preset(
        path="/search/",
        request='{"yql": "select * from sources {index} where userQuery()", '
        '"query": "{query}", "hits": "{top_k}"}',
        mapping={"ids": r're:"(?:documentid|id)"\s*:\s*"id:[^":]*:[^":]*:[^":]*:([^"]+)"'},
        note="the id is the last part of id:NAMESPACE:TYPE::ID",
    ),
    "qdrant": Preset(
        path="/collections/{index}/points/query",
        request='{"query": {"text": "{query}", "model": "qdrant/bm25"}, "using": "bm25", '
        '"limit": "{top_k}", "with_payload": true}',
        mapping={
            "ids": "result.points[].[payload.doc_id || payload.document_id || payload.id || id][]",
            "scores": "result.points[].score",
        },
        note="needs a sparse vector called bm25 and Qdrant 1.15.3 or later, which embeds the query",
    ),
}


def find_preset(name: str) -> Preset:
    """The preset called `name`. Raises `UsageError` with the names that there are."""
    found = PRESETS.get(name.lower())
    if found is None:
        hint = did_you_mean(name, PRESETS)
        raise UsageError(f"--preset {name!r} is not one of {', '.join(PRESETS)}{hint}")
    return found
