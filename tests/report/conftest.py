"""Real runs to make pages of, one of them by an agent and on data that mean harm."""

from pathlib import Path

import pytest

from assay import Dataset, Document, Outcome, Query, evaluate_agent

SCRIPT = "<script>alert('x')</script>"
HANDLER = '" onmouseover="alert(1)'


@pytest.fixture(scope="session")
def hostile_dataset() -> Dataset:
    """40 queries; every text of the data set tries to leave its place."""
    size = 40
    return Dataset(
        name=f"tiny{HANDLER}",
        documents={
            f"d{i}": Document(f"d{i}", f"Title {i} {SCRIPT}", f"Text {i} {SCRIPT}{HANDLER}")
            for i in range(size + 1)
        },
        queries={
            f"q{i}": Query(
                f"q{i}",
                f"{'what is ' if i % 2 else ''}query {i} {SCRIPT}{HANDLER}",
                ("odd" if i % 2 else f"even{SCRIPT}",),
            )
            for i in range(size)
        },
        judgments={"test": {f"q{i}": {f"d{i}": 2, f"d{i + 1}": 1} for i in range(size)}},
    )


def hostile_agent(query: str, top_k: int) -> list[str]:
    """Right on the first ten queries, then wrong in every way there is."""
    number = int(query.split("query ")[1].split()[0])
    if number < 10:
        return [f"d{number}", f"d{number + 1}"]
    if number < 15:
        raise ValueError(f"refused {SCRIPT}{HANDLER}")
    if number < 20:
        return [f"d{number + 1}", f"d{number + 1}", f"unknown{SCRIPT}"]
    return ["d0", "d1", "d2", "d3", "d4", "d5"]


def plain_agent(query: str, top_k: int) -> list[str]:
    number = int(query.split("query ")[1].split()[0])
    return [f"d{number + 1}"] if number % 2 else ["d40", f"d{number}"]


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def hostile_run(hostile_dataset: Dataset, out: Path) -> Outcome:
    return evaluate_agent(
        hostile_agent,
        hostile_dataset,
        out=out,
        gates=("ndcg@5>=0.9", "success_rate>=0.5"),
        retries=0,
    )


@pytest.fixture(scope="session")
def plain_run(hostile_dataset: Dataset, out: Path) -> Outcome:
    return evaluate_agent(plain_agent, hostile_dataset, out=out)
