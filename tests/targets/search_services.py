"""Search services as others run them, over the bundled notes: the same paths, the same shapes."""

import json
import re
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from assay.data import load_dataset

DOCUMENTS = load_dataset("notes").documents
TOKEN = "open-sesame-1234"


def best(query: str, count: int, offset: int = 0) -> list[tuple[str, float]]:
    words = set(re.findall(r"\w+", query.lower()))
    scored = [
        (len(words & set(re.findall(r"\w+", each.full_text.lower()))), each.id)
        for each in DOCUMENTS.values()
    ]
    ranked = sorted(scored, key=lambda pair: (-pair[0], pair[1]))
    return [(doc_id, float(score)) for score, doc_id in ranked[offset : offset + count]]


def _hits(found: list[tuple[str, float]]) -> dict[str, Any]:
    total = {"value": len(found), "relation": "eq"}
    hits = [{"_index": "docs", "_id": doc_id, "_score": score} for doc_id, score in found]
    shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
    body = {"total": total, "max_score": found[0][1] if found else None, "hits": hits}
    return {"took": 3, "timed_out": False, "_shards": shards, "hits": body}


async def opensearch(request: Request) -> Response:
    if request.method == "GET":
        query, size = request.query_params["q"], int(request.query_params.get("size", 10))
    else:
        body = await request.json()
        query, size = body["query"]["multi_match"]["query"], body["size"]
        assert isinstance(size, int)
    if request.path_params["index"] != "docs":
        index = request.path_params["index"]
        error = {"type": "index_not_found_exception", "reason": f"no such index [{index}]"}
        return JSONResponse({"error": error, "status": 404}, 404)
    return JSONResponse(_hits(best(query, size)))


async def solr(request: Request) -> Response:
    body = await request.json()
    assert body["params"]["defType"] == "edismax"
    docs = [{"id": doc_id, "score": score} for doc_id, score in best(body["query"], body["limit"])]
    response = {"numFound": len(docs), "start": 0, "numFoundExact": True, "docs": docs}
    return JSONResponse({"responseHeader": {"status": 0, "QTime": 2}, "response": response})


async def vespa(request: Request) -> Response:
    body = await request.json()
    assert body["yql"] == "select * from sources docs where userQuery()"
    found = best(body["query"], body["hits"])
    root: dict[str, Any] = {"id": "toplevel", "relevance": 1.0, "fields": {"totalCount": 9}}
    if found:  # an answer without documents has no children
        root["children"] = [
            {
                "id": f"id:mine:docs::{doc_id}",
                "relevance": score,
                "source": "docs",
                "fields": {"sddocname": "docs", "documentid": f"id:mine:docs::{doc_id}"},
            }
            for doc_id, score in found
        ]
    return JSONResponse({"root": root})


async def typesense(request: Request) -> Response:
    if request.headers.get("x-typesense-api-key") != TOKEN:
        return JSONResponse({"message": "Forbidden - a valid API key must be sent."}, 401)
    found = best(request.query_params["q"], int(request.query_params["per_page"]))
    hits = [{"document": {"id": each}, "text_match": int(score)} for each, score in found]
    return JSONResponse({"found": len(hits), "hits": hits, "page": 1})


async def meilisearch(request: Request) -> Response:
    if request.headers.get("authorization") != f"Bearer {TOKEN}":
        return JSONResponse({"message": "The provided API key is invalid.", "code": "x"}, 403)
    body = await request.json()
    found = best(body["q"], body["limit"])
    hits = [{"id": doc_id, "_rankingScore": score / 100} for doc_id, score in found]
    return JSONResponse({"hits": hits, "query": body["q"], "limit": body["limit"], "offset": 0})


async def weaviate(request: Request) -> Response:
    body = await request.json()
    assert "{query}" not in str(body)
    variables = body["variables"]
    found = [
        {"docId": doc_id, "_additional": {"score": str(score)}}
        for doc_id, score in best(variables["q"], variables["k"])
    ]
    return JSONResponse({"data": {"Get": {"Note": found}}})


async def postgrest(request: Request) -> Response:
    body = await request.json()
    rows = [{"id": doc_id, "rank": score} for doc_id, score in best(body["q"], body["k"])]
    return JSONResponse(rows)


async def pages(request: Request) -> Response:
    query = request.query_params
    start = int(query.get("from", 3 * (int(query.get("page", 1)) - 1)))
    found = best(query["q"], 3, start)
    return JSONResponse({"items": [{"id": doc_id} for doc_id, _ in found]})


async def chat(request: Request) -> Response:
    body = await request.json()
    found = best(body["messages"][-1]["content"], 5)
    content = f"It is so [{found[0][0]}]."
    sources = [{"id": doc_id, "score": score} for doc_id, score in found]
    if not body.get("stream"):
        message = {"role": "assistant", "content": content}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return JSONResponse({"choices": choices, "sources": sources})
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": content[start : start + 4]} for start in range(0, len(content), 4)]
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": each}]} for each in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}], "sources": sources})
    lines = [f"data: {json.dumps(each)}\n\n" for each in chunks]
    return Response("".join([*lines, "data: [DONE]\n\n"]), media_type="text/event-stream")


async def ask(request: Request) -> Response:
    found = best((await request.json())["question"], 5)
    events: list[Any] = [{"sources": [{"id": doc_id} for doc_id, _ in found]}]
    events += [{"delta": piece} for piece in ("It ", "is ", "so.")]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return Response("".join([*lines, "data: [DONE]\n\n"]), media_type="text/event-stream")


app = Starlette(
    routes=[
        Route("/{index}/_search", opensearch, methods=["GET", "POST"]),
        Route("/solr/docs/select", solr, methods=["POST"]),
        Route("/search/", vespa, methods=["POST"]),
        Route("/collections/docs/documents/search", typesense),
        Route("/indexes/docs/search", meilisearch, methods=["POST"]),
        Route("/v1/graphql", weaviate, methods=["POST"]),
        Route("/rpc/search_docs", postgrest, methods=["POST"]),
        Route("/pages", pages),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/ask", ask, methods=["POST"]),
    ]
)
