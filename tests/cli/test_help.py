"""Help in sections, hints for mistyped names, and the line that says where a run is."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.app import app
from assay.cli.verb import GROUPS, VerbEntry, VerbGroup


def invoke(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "88"}).invoke(app, arguments, prog_name="assay")
    error = result.exception
    return result.output + ("" if error is None or isinstance(error, SystemExit) else str(error))


def sections(text: str) -> dict[str, list[str]]:
    """The flags or verbs under each heading, in their order."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if heading := re.fullmatch(r"([A-Z][\w -]+):", line):
            current = found.setdefault(heading[1], [])
        elif found and (entry := re.match(r"  (\S+)", line)):
            current.append(entry[1])
    return found


def test_the_usual_options_of_eval_come_first_and_the_rest_with_help_all() -> None:
    shown, every = sections(invoke("eval", "--help")), sections(invoke("eval", "--help-all"))
    first = ["--dataset", "--num-queries", "--top-k", "--gate", "--baseline", "--compare-to"]
    first += ["--answers,", "--judge", "--search", "--metrics", "--resume", "--json", "--help,"]
    assert shown["Usual options"] == first
    assert set(first) <= set(every["Usual options"])
    assert list(every) == ["Arguments", *GROUPS]
    assert 20 <= sum(map(len, shown.values())) <= 30
    flags = [flag for flags in every.values() for flag in flags]
    assert len(flags) == len(set(flags))


def test_commands_and_options_are_few() -> None:
    """Before you add one, find one that can go."""
    commands = dict(app.all_verbs())
    options = {
        words: [o for o in each.params if o.param_type_name == "option" and not o.hidden]
        for words, each in commands.items()
    }
    assert len(commands) <= 32
    assert len({o.opts[0] for each in options.values() for o in each}) <= 95
    assert len(options["eval",]) <= 45


def test_the_list_of_verbs_begins_their_help_which_names_no_python_types() -> None:
    """Lines are written twice, so that the list imports no verb."""
    for words, command in app.all_verbs():
        entry = app.verbs[words[0]]
        found = entry.verbs[words[1]] if isinstance(entry, VerbGroup) else entry
        assert isinstance(found, VerbEntry)
        said = " ".join((command.help or "").split())
        assert said.startswith(found.line.rstrip(".")), words
        text = invoke(*words, "--help")
        assert re.findall(r"(?<!\|)\b(?:PATH|INTEGER|FLOAT)\b", text) == [], words
        usage = text.partition("\n\n")[0]
        assert not re.search(r"[{}]|\[\[|\.{4}", usage), usage


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("evla",), "'eval'"),
        (("serve", "grean"), "'green'"),
        (("eval", "builtn:bm25", "--dataset", "notes"), "'builtin:bm25'"),
        (("eval", "builtin:bm25", "--dataset", "queries.cvs"), "'queries.csv'"),
        (("eval", "builtin:bm25", "--dataset", "notes", "--split", "tset"), "'test'"),
        (("eval", "builtin:bm25", "--dataset", "notes", "--gate", "ndgc@5>=0.1"), "'nDCG'"),
        (("eval", "--dataset", "notes", "--gate", "sucess_rate>1"), "'success_rate'"),
        (("bench", "quik"), "'quick'"),
        (("report", "20260101-a"), "'20260101-0000-a'"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], meant: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queries.csv").write_text("query,doc_ids\nwhat,note-1\n")
    (tmp_path / "runs" / "20260101-0000-a").mkdir(parents=True)
    (tmp_path / "runs" / "20260101-0000-a" / "run.json").write_text("{}")
    said = invoke(*arguments)
    assert f". Did you mean {meant}?" in said
    assert said.count("Did you mean") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("eval", "questions.csv", "--dataset", "notes"), "is a table: pass it as --dataset"),
        (("eval", "--datset", "x"), "Did you mean one of: '--dataset'"),
        (("index", "notes"), "(notes); a data set is named by --dataset"),
        (("eval", "--dataset", "notes", "--gate", "p95<5"), "write NAME@K; or success_rate, lat"),
        (("score", "broken.jsonl"), "broken.jsonl:1: is not valid JSON"),
        (("bench", "quick", "--resume", "latest"), "not both"),
        (("serve", "green", "--port", "70000"), "70000 is not in the range 0<=x<=65535"),
        (("search", "x", "--mode", "bm25", "--embedder", "tei:http://a"), "--embedder has no effe"),
        (("export", "x", "--format", "trec", "--metrics", "mrr@5"), "--metrics has no effect"),
        (("audit", "x.json", "--columns", "query=a"), "add --dataset FILE"),
        (("score", "."), ". is not a file; for a run's folder: assay report"),
        (("audit", "latest"), "no run in runs; create one with: assay eval"),
    ],
)
def test_a_mistake_is_answered_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.jsonl").write_text('{"question": "Why?"\n')
    Path("questions.csv").write_text("query,doc_ids\nwhat,a\n")
    assert message in invoke(*arguments)


def test_a_run_ends_with_how_to_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    evaluation = ["eval", "builtin:bm25", "--dataset", "notes", "--num-queries", "5"]
    result = CliRunner().invoke(app, [*evaluation, "--json"])
    assert result.exit_code == 0, result.output
    (page,) = re.findall(r"^report: (\S+); all runs: assay serve ui$", result.stderr, re.MULTILINE)
    assert CliRunner().invoke(app, ["report", "--open"]).exit_code == 0
    assert opened == [(tmp_path / page).as_uri()]


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "assay", "--version"]
    assert subprocess.check_output(command, text=True).strip() == version("agent-assay")
