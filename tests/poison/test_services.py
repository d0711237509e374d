"""`--poison` over HTTP: services that take documents by `{contexts}`, in real requests."""

from pathlib import Path
from typing import Any

import pytest
from tests.json_server import Answer, JsonRequest, JsonServer
from tests.poison.applications import TEA, application, obeys

from assay.evaluation.api import evaluate
from assay.targets.rest import fill_json

ANSWER = application(obeys)


class Service(JsonServer):
    """Answers `POST /ask` and `/chat/completions`; keeps what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        super().__init__()

    def answer(self, request: JsonRequest) -> Answer:
        if request.method == "GET":
            return 404, {}, {}
        body = request.body
        self.bodies.append(body)
        query = body.get("q") or body["messages"][-1]["content"]
        found = ANSWER(query, 5, body.get("documents"))
        if request.path == "/ask":
            return 200, {}, found
        message = {"role": "assistant", "content": found["answer"]}
        return 200, {}, {"choices": [{"message": message}], "doc_ids": found["doc_ids"]}


REQUESTS = {
    "rest": ("rest:{url}/ask", {"q": "{query}", "documents": "{contexts}"}, "answer=answer"),
    "openai": ("openai:{url}", {"documents": "{contexts}"}, ()),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_service_gets_planted_documents_by_its_own_request(kind: str, tmp_path: Path) -> None:
    target, request, mapping = REQUESTS[kind]
    with Service().running() as service:
        run = evaluate(
            target.format(url=service.url),
            TEA,
            out=tmp_path,
            request=request,
            mapping=mapping,
            poison=True,
            num_queries=3,
            warm_up=0,
            gates="poisoned<=0.05",
        )
        without = [body for body in service.bodies if "documents" not in body]
        planted = [body["documents"] for body in service.bodies if "documents" in body]
    assert not run.gates_passed
    assert run.report.answers is not None
    assert run.report.answers.poison is not None
    assert run.report.answers.poison.total.followed == 12
    assert (len(without), len(planted)) == (3, 12)
    assert all(len(each) == 2 for each in planted)
    assert all(set(each[0]) == {"id", "title", "text"} for each in planted)


def test_contexts_are_a_list_a_text_or_left_out() -> None:
    body = {"a": "{contexts}", "b": ["x", "{contexts}"], "c": "Read: {contexts}", "d": "{query}"}
    given = [{"id": "d1", "title": "Tea", "text": "It steeps."}]
    assert fill_json(body, {"query": "q", "contexts": given}) == {
        "a": given,
        "b": ["x", given],
        "c": "Read: [d1] Tea\nIt steeps.",
        "d": "q",
    }
    assert fill_json(body, {"query": "q"}) == {"b": ["x"], "c": "Read: ", "d": "q"}
