"""`assay.evaluate` and `Run`: what a person has in a notebook."""

import asyncio
import inspect
from pathlib import Path
from typing import Any, get_type_hints

import numpy
import pytest
from tests.tiny_dataset import tiny_dataset

import assay
from assay import MRR, Dataset, Run, nDCG
from assay.errors import RunError, UsageError
from assay.evaluation.api import evaluate
from assay.run.config import command_settings
from assay.targets.protocol import AgentAnswer, AgentInfo


def first(query: str, top_k: int) -> list[str]:
    return [f"d{query.split()[-1]}"]


def second(query: str, top_k: int) -> list[str]:
    return [f"d{int(query.split()[-1]) + 1}"]


@pytest.fixture
def dataset() -> Dataset:
    return tiny_dataset(12)


@pytest.fixture
def run(dataset: Dataset, tmp_path: Path) -> Run:
    return assay.evaluate(first, dataset, out=tmp_path)


def test_every_option_is_a_keyword_with_the_type_and_default_of_its_field() -> None:
    """The signature is written out for editors; this holds it to the table of options."""
    parameters = inspect.signature(evaluate).parameters
    own = {"agent", "dataset", "out", "listeners", "resume", "options"}
    assert set(parameters) - own <= {setting.name for setting in command_settings()}
    hints = get_type_hints(evaluate, localns={"LLMProvider": Any})
    for setting in command_settings():
        if setting.name in (
            *("dataset", "baseline", "judge", "references"),
            *("compare_to", "request", "label", "judge_set"),
        ):
            continue  # objects, paths and None are taken as well
        if setting.name not in parameters:
            continue  # one of **options
        assert parameters[setting.name].default == setting.default, setting.name
        if setting.kind in (int, float, str, bool):
            expected = setting.kind | None if setting.nullable else setting.kind
            assert hints[setting.name] == expected, setting.name


def test_an_unknown_keyword_is_an_error(dataset: Dataset) -> None:
    with pytest.raises(TypeError, match=r"no parameter 'topk'. Did you mean 'top_k'"):
        assay.evaluate(first, dataset, topk=3)
    with pytest.raises(TypeError, match=r"no parameter 'gate'. Did you mean 'gates'"):
        assay.evaluate(first, dataset, gate="ndcg@5>=0.3")
    with pytest.raises(TypeError, match=r"no parameter 'zebra'$"):
        assay.evaluate(first, dataset, zebra=1)


UNTYPED: Any = assay


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda data, run: UNTYPED.evaluate(first, {"q": "x"}), r"name or a path, .*from_dicts"),
        (lambda data, run: UNTYPED.evaluate(first, ""), "no data set ''"),
        (lambda data, run: UNTYPED.compare_runs(run, run, [3]), "a metric is a name such as"),
        (lambda data, run: UNTYPED.parse_metric(5), "a metric is a name"),
    ],
)
def test_a_wrong_value_is_named(call: Any, words: str, dataset: Dataset, run: Run) -> None:
    with pytest.raises(UsageError, match=words):
        call(dataset, run)


def test_a_warning_names_the_line_of_the_caller(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="all returned ids are unknown") as caught:
        assay.evaluate(lambda query, top_k: ["elsewhere"], dataset, out=tmp_path)
    assert {each.filename for each in caught} == {__file__}


def test_the_exit_code_tells_no_answers_from_a_failed_gate(
    dataset: Dataset, run: Run, tmp_path: Path
) -> None:
    def broken(query: str, top_k: int) -> list[str]:
        raise ValueError(query)

    nothing = assay.evaluate(broken, dataset, retries=0, out=tmp_path)
    failed = assay.evaluate(second, dataset, gates="ndcg@5>=0.9", out=tmp_path)
    gated = assay.evaluate(broken, dataset, retries=0, gates="ndcg@5>=0.1", out=tmp_path)
    assert (run.exit_code, nothing.exit_code, failed.exit_code) == (0, 3, 1)
    assert (gated.gates_passed, gated.exit_code) == (False, 3)
    assert nothing.gates_passed
    assert nothing.report.failure_reason == "no query was answered"


def test_a_run_is_compared_with_one_at_hand(dataset: Dataset, run: Run, tmp_path: Path) -> None:
    for earlier in (run, run.folder, run.folder.path):
        other = assay.evaluate(second, dataset, compare_to=earlier, out=tmp_path / "new")
        assert other.comparison is not None
        assert other.comparison.run == run.name
    for wrong, kind in ((run, "Run"), (run.folder, "RunFolder")):
        with pytest.raises(UsageError, match=f"got {kind}; an earlier run .* by compare_to="):
            assay.evaluate(second, dataset, baseline=wrong, out=tmp_path)


def test_rows_are_typed_and_in_the_order_of_the_plan(run: Run) -> None:
    rows = list(run.rows())
    assert [row.query_id for row in rows] == [f"q{i}" for i in range(12)]
    assert rows[3].retrieved_docs == ["d3"]
    assert list(run.to_pandas()["query_id"]) == [row.query_id for row in rows]
    assert rows[3].score(nDCG @ 5) == rows[3].scores["ndcg_at_5"] > 0.5


def test_a_run_compares_itself_with_another(run: Run, dataset: Dataset, tmp_path: Path) -> None:
    other = assay.evaluate(second, dataset, out=tmp_path)
    comparison = run.compare(other)
    assert comparison.metrics["ndcg@5"].difference > 0
    assert comparison == run.compare(other.folder.path)
    for one in (["mrr@5"], "mrr@5", MRR @ 5):
        assert list(run.compare(other, one).metrics) == ["mrr@5"]
    assert assay.compare_runs(other, run) == comparison


def test_a_run_is_loaded_again(run: Run, tmp_path: Path) -> None:
    for reference in (run.folder, run.folder.path, str(run.folder)):
        assert assay.load_run(reference).report == run.report
    assert assay.load_run("latest", tmp_path).name == run.name
    with pytest.raises(RunError, match="no run is called"):
        assay.load_run("missing", tmp_path)


def test_a_damaged_run_does_not_hide_the_others(run: Run, dataset: Dataset, tmp_path: Path) -> None:
    other = assay.evaluate(second, dataset, out=tmp_path)
    other.folder.report_file.write_text("{")
    with pytest.warns(UserWarning, match=f"{other.name}.* is left out"):
        assert [each.name for each in assay.runs(tmp_path)] == [run.name]


class Backwards:
    """An object with the methods of an agent, which knows nothing of Assay's classes."""

    info = AgentInfo("backwards", "mine")

    def __init__(self) -> None:
        self.events: list[str] = []

    async def open(self) -> None:
        self.events.append("open")

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        return AgentAnswer((f"d{query.split()[-1]}",))

    async def close(self) -> None:
        self.events.append("close")


def test_an_object_with_an_agents_methods_is_a_target(dataset: Dataset, tmp_path: Path) -> None:
    agent = Backwards()
    run = assay.evaluate(agent, dataset, out=tmp_path)
    assert run.report.target.name == "backwards"
    assert run.report.summary.successful_queries == 12
    assert agent.events == ["open", "close"]


@pytest.mark.parametrize("target", [7, None, ["d1"], Backwards])
def test_what_is_no_target_is_refused(target: Any, dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a target is|Backwards is a class; pass an instance"):
        assay.evaluate(target, dataset, out=tmp_path)


async def test_it_works_where_a_loop_is_running(dataset: Dataset, tmp_path: Path) -> None:
    assert asyncio.get_running_loop()
    run = assay.evaluate(first, dataset, out=tmp_path)
    assert run.state == "complete"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 5.0}, "top_k must be an integer, got 5.0"),
        ({"top_k": None}, "top_k must be an integer, got None"),
        ({"num_queries": True}, "num_queries must be an integer, got True"),
        ({"answers": 1}, "answers must be True or False, got 1"),
        ({"mapping": 5}, "mapping must be a list of strings"),
        ({"gates": 5}, "gates must be a list of strings, got 5"),
        ({"gates": [5]}, "gates must be a list of strings"),
        ({"answers": True, "judge": 5}, "a judge is a string .* got int"),
    ],
)
def test_a_wrong_type_is_refused_before_the_first_call(
    dataset: Dataset, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        assay.evaluate(first, dataset, out=tmp_path, **settings)
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_numpy_are_numbers(dataset: Dataset, tmp_path: Path) -> None:
    number: dict[str, Any] = {
        "top_k": numpy.int64(3),
        "seed": numpy.int32(7),
        "timeout": numpy.float32(2),
    }
    run = assay.evaluate(first, dataset, out=tmp_path, **number)
    assert assay.load_run(run.folder) == run
    assert (run.report.config.top_k, run.report.config.timeout) == (3, 2.0)


def test_settings_chosen_on_judgments_can_be_declared(dataset: Dataset, tmp_path: Path) -> None:
    run = assay.evaluate("builtin:bm25", dataset, track="trained", bm25={"k1": 2}, out=tmp_path)
    assert run.report.track == run.folder.read_header().track == "trained"
    assert assay.evaluate("builtin:bm25", dataset, out=tmp_path).report.track == "zero-shot"
    with pytest.raises(UsageError, match="cannot be on the zero-shot track"):
        assay.evaluate("builtin:tuned", dataset, track="zero-shot", out=tmp_path)


def test_an_interrupted_run_resumes_with_its_own_settings(dataset: Dataset, tmp_path: Path) -> None:
    whole = assay.evaluate(first, dataset, top_k=3, out=tmp_path)
    calls = whole.folder.calls_file
    calls.write_bytes(b"".join(calls.read_bytes().splitlines(keepends=True)[:2]))
    whole.folder.report_file.unlink()
    again = assay.evaluate(first, dataset, resume="latest", out=tmp_path)
    assert (again.name, again.report.config.top_k) == (whole.name, 3)
    assert again.metrics == whole.metrics
