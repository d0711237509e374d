"""`assay judge bench`: what a judge is worth on claims whose labels are known."""

import json
import zipfile
from pathlib import Path

import pytest
from scripts.train_contradiction import unrelated_claims
from typer.testing import CliRunner

from assay.answers.judge import Judge, support_prompt
from assay.answers.judge_bench import (
    AskedJudge,
    LabeledClaim,
    LexicalJudge,
    bench_judge,
    read_claims,
    table_claims,
)
from assay.cli.judge import judge_app
from assay.errors import DataError

TRUE = LabeledClaim(
    "The boiler was replaced.", ("The boiler was replaced in May.",), "supported", "a"
)
FALSE = LabeledClaim(
    "The boiler was not replaced.", ("The boiler was replaced in May.",), "contradicted", "b"
)
ELSE = LabeledClaim("Whales migrate.", ("The boiler was replaced in May.",), "unrelated", "c")


class Scripted:
    """A model whose reply depends on the prompt."""

    name = "test:scripted"

    def __init__(self, words: dict[str, str], otherwise: str = "FALSE") -> None:
        self.words = words
        self.otherwise = otherwise
        self.prompts: list[str] = []

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        self.prompts.append(prompt)
        found = (reply for part, reply in self.words.items() if part in prompt)
        return next(found, self.otherwise)


async def test_a_good_judge_is_told_from_one_that_always_agrees() -> None:
    good = AskedJudge(Judge(Scripted({"not replaced": "FALSE", "Whales": "FALSE"}, "TRUE")))
    result = await bench_judge(good, [TRUE, FALSE, ELSE], "mine")
    assert (result.balanced_accuracy, result.kappa, result.flip_rate) == (1.0, 1.0, 0.0)
    yes = await bench_judge(AskedJudge(Judge(Scripted({}, "TRUE"))), [TRUE, FALSE, ELSE], "mine")
    assert (yes.balanced_accuracy, yes.kappa) == (0.5, 0.0)


async def test_a_judge_that_prefers_a_place_flips_and_decides_nothing() -> None:
    model = Scripted({"A statement is to be checked": "TRUE"})
    result = await bench_judge(AskedJudge(Judge(model)), [TRUE, FALSE], "mine")
    assert (result.flip_rate, result.undecided, result.balanced_accuracy) == (1.0, 2, 0.0)
    first, second = model.prompts[:2]
    assert first.index("Statement:") > first.index("<document") > 0
    assert second.index("Statement:") < second.index("<document")


async def test_an_unreadable_reply_is_no_verdict() -> None:
    result = await bench_judge(AskedJudge(Judge(Scripted({}, "Maybe."))), [TRUE, FALSE], "mine")
    assert (result.undecided, result.unparseable_votes, result.balanced_accuracy) == (2, 4, 0.0)


async def test_rules_see_what_words_do_not() -> None:
    words = await bench_judge(LexicalJudge("words"), [TRUE, FALSE, ELSE], "mine")
    rules = await bench_judge(LexicalJudge("rules"), [TRUE, FALSE, ELSE], "mine")
    assert words.balanced_accuracy == 0.75
    assert rules.balanced_accuracy == 1.0
    assert rules.flip_rate is None


def test_the_prompt_of_the_first_vote_is_that_of_faithfulness() -> None:
    assert support_prompt("It is.", ["So."]) == support_prompt("It is.", ["So."], 0)
    assert support_prompt("It is.", ["So."], 2) != support_prompt("It is.", ["So."], 0)


@pytest.fixture
def scifact(tmp_path: Path) -> Path:
    path = tmp_path / "scifact.zip"
    corpus = [
        {"_id": "d1", "title": "Tea", "text": "Tea lowers blood pressure."},
        {"_id": "d2", "text": "No."},
    ]
    queries = [
        {
            "_id": "1",
            "text": "Tea lowers blood pressure.",
            "metadata": {"d1": [{"label": "SUPPORT"}]},
        },
        {
            "_id": "2",
            "text": "Tea raises blood pressure.",
            "metadata": {"d1": [{"label": "CONTRADICT"}]},
        },
        {"_id": "3", "text": "No evidence.", "metadata": {}},
    ]
    with zipfile.ZipFile(path, "w") as archive:
        for name, rows in (("corpus", corpus), ("queries", queries)):
            archive.writestr(f"scifact/{name}.jsonl", "\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("evidence", [[], "x", 5, None, [{}], [5], [{"label": 1}], {"a": 1}])
def test_wrong_evidence_of_scifact_is_refused_with_its_line(
    tmp_path: Path, evidence: object
) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "1", "text": "Tea."}))
    query = {"_id": "7", "text": "Tea.", "metadata": {"1": evidence}}
    (tmp_path / "queries.jsonl").write_text(json.dumps(query))
    with pytest.raises(DataError, match=r"queries.jsonl:1: the evidence under 'metadata' must be"):
        read_claims(str(tmp_path))


def test_the_labels_of_scifact_are_read(scifact: Path) -> None:
    claims = read_claims(str(scifact))
    assert [each.label for each in claims] == ["supported", "contradicted"]
    assert claims[0].sources == ("Tea", "Tea lowers blood pressure.")


def test_a_table_with_claim_doc_and_label_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bench.csv"
    path.write_text("dataset,doc,claim,label\nx,Tea lowers it.,Tea raises it.,0\nx,Tea.,Tea.,1\n")
    assert [each.supported for each in table_claims(path)] == [False, True]
    path.write_text("doc,claim,label\nTea,Tea,maybe\n")
    with pytest.raises(DataError, match=r"bench\.csv:2: 'label' must be 1 or 0, got 'maybe'"):
        read_claims(str(path))


def test_unrelated_claims_have_the_sources_of_another() -> None:
    claims = [TRUE, LabeledClaim("Tea.", ("Tea is hot.",), "supported", "t")]
    assert [each.sources for each in unrelated_claims(claims)] == [("Tea is hot.",), TRUE.sources]


def test_the_command_prints_a_table_and_json(scifact: Path) -> None:
    shown = CliRunner().invoke(judge_app, ["bench", "notes", str(scifact), "--limit", "40"])
    assert shown.exit_code == 0, shown.output
    for words in ("small-model", "balanced accuracy", "kappa", "scifact.zip"):
        assert words in shown.stdout
    arguments = ["bench", str(scifact), "--judge", "rules", "--json"]
    (row,) = json.loads(CliRunner().invoke(judge_app, arguments).stdout)
    assert (row["judge"], row["number"], row["balanced_accuracy"]) == ("rules", 2, 1.0)
    assert row["spending"] is None
