"""`assay eval`: put a data set's queries to an agent and report how good its answers are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.agents.targets import DEFAULT_TARGET, complete_target, targets_help
from assay.cli.console import say, show
from assay.cli.evaluating import choose_dataset, judge_spec, print_report, run_evaluation
from assay.cli.resuming import resumed_config

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.evaluation.evaluation import Outcome


def _option(help: str, variable: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help, envvar=variable, metavar=metavar)


def evaluate(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            help=f"The agent under test: {targets_help()}. Left out: the reference agent over "
            f"A2A ({DEFAULT_TARGET}).",
            autocompletion=complete_target,
            envvar="ASSAY_TARGET",
            metavar="TARGET",
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        _option(
            "nfcorpus, notes, or the path of a BEIR folder or zip. Left out: nfcorpus, or notes "
            "where that cannot be had.",
            "ASSAY_DATASET",
            "NAME|PATH",
        ),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            help="nfcorpus.zip, where it is not to be downloaded. [env var: NFCORPUS_ARCHIVE]",
            metavar="FILE",
        ),
    ] = None,
    split: Annotated[str, _option("Which judgments to use.", "ASSAY_SPLIT", "NAME")] = "test",
    num_queries: Annotated[
        int | None, _option("How many queries to draw. Left out: all.", "ASSAY_NUM_QUERIES", "N")
    ] = None,
    seed: Annotated[int, _option("Decides which queries are drawn.", "ASSAY_SEED", "S")] = 42,
    top_k: Annotated[int, _option("How many documents to ask for.", "ASSAY_TOP_K", "K")] = 5,
    concurrency: Annotated[
        int, _option("How many queries are out at once.", "ASSAY_CONCURRENCY", "N")
    ] = 8,
    timeout: Annotated[
        float,
        _option("Seconds for one attempt at a query; a retry has them anew.", "ASSAY_TIMEOUT", "S"),
    ] = 60.0,
    retries: Annotated[
        int,
        _option(
            "How often to ask again after what can pass: connection errors, 429, 502 to 504.",
            "ASSAY_RETRIES",
            "N",
        ),
    ] = 3,
    gate: Annotated[
        list[str] | None,
        _option(
            'A condition such as "ndcg@5>=0.30"; exit code 1 where it fails. Repeatable; several '
            "in the variable are parted by ;",
            "ASSAY_GATE",
            "EXPR",
        ),
    ] = None,
    baseline: Annotated[
        str | None, _option("A second target to compare with.", "ASSAY_BASELINE", "TARGET")
    ] = None,
    track: Annotated[
        str,
        _option(
            "How the agent may have learned: zero-shot, trained or undeclared. Built-in agents "
            "know theirs.",
            "ASSAY_TRACK",
            "TRACK",
        ),
    ] = "undeclared",
    mapping: Annotated[
        str,
        typer.Option(
            "--map",
            help="What an MCP server's search tool calls its fields, where that is not found: "
            "query=q,top_k=limit,doc_id=id.",
            envvar="ASSAY_MAP",
            metavar="FIELD=NAME,...",
        ),
    ] = "",
    answers: Annotated[
        bool,
        _option(
            "Evaluate the answers too: right or not, faithful, cited, and whose fault a wrong one "
            "is. For targets that answer.",
            "ASSAY_ANSWERS",
        ),
    ] = False,
    judge: Annotated[
        str | None,
        typer.Option(
            help="With --answers: the model that judges them, ollama[:MODEL[@URL]], "
            "anthropic[:MODEL], openai:MODEL[@URL], gguf[:FILE]; or extractive for none. Left "
            "out: key facts decide. [env var: RAG_EVAL_PROVIDER]",
            metavar="SPEC",
        ),
    ] = None,
    judge_votes: Annotated[
        int, _option("With --judge: how often each answer is judged.", "ASSAY_JUDGE_VOTES", "N")
    ] = 3,
    max_cost: Annotated[
        float | None,
        _option(
            "With --judge: stop before this many US dollars are spent.", "ASSAY_MAX_COST", "USD"
        ),
    ] = None,
    ground_truth: Annotated[
        Path | None,
        _option(
            "With --answers: reference answers where the data set has none, a file that "
            "assay ground-truth wrote.",
            "ASSAY_GROUND_TRUTH",
            "FILE",
        ),
    ] = None,
    counterfactuals: Annotated[
        bool,
        _option(
            "With --answers: put questions again with the right documents, with none and with "
            "misleading ones, to settle whose fault a wrong answer is.",
            "ASSAY_COUNTERFACTUALS",
        ),
    ] = False,
    out: Annotated[Path, _option("Where run folders go.", "ASSAY_OUT", "DIR")] = Path("runs"),
    resume: Annotated[
        str | None,
        typer.Option(
            help="Finish this run and start none: its folder, its name or 'latest'.", metavar="RUN"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Evaluate an agent: ask it queries, score what it finds, say how sure the score is.

    Exit codes: 0 good, 1 a gate failed, 2 wrong usage or input, 3 the target answered nothing, or
    it or the judge could not be reached, 130 interrupted.
    """
    from assay.agents.targets import open_target
    from assay.evaluation.evaluation import Evaluation
    from assay.evaluation.plan import RunConfig
    from assay.evaluation.run_folder import find_run

    folder = find_run(resume, out) if resume else None
    if folder is not None:
        config = resumed_config(folder, context)
        data = choose_dataset(config.dataset, archive)
    else:
        data = choose_dataset(dataset, archive)
        config = RunConfig(
            target=target or DEFAULT_TARGET,
            dataset=dataset or data.name,
            split=split,
            num_queries=num_queries,
            seed=seed,
            top_k=top_k,
            concurrency=concurrency,
            timeout=timeout,
            retries=retries,
            gates=_gates(context, gate or []),
            track=track,
            baseline=baseline or "",
            mapping=mapping,
            answers=answers,
            judge=judge_spec(judge, max_cost) if answers or judge else "",
            judge_votes=judge_votes,
            max_cost=max_cost,
            counterfactuals=counterfactuals,
            ground_truth=str(ground_truth or ""),
        )
    evaluation = Evaluation.plan(config, data)
    if config.baseline:  # a wrong one is to be told before the run, not after it
        open_target(config.baseline, data, answers=config.answers)
    outcome = run_evaluation(evaluation, out, folder)
    compared = True
    if config.baseline and outcome.state == "complete":
        compared = _compare_with(config.baseline, outcome, data, out)
    _print(outcome, as_json)
    raise typer.Exit(exit_code(outcome) if compared else 130)


def _gates(context: typer.Context, given: list[str]) -> tuple[str, ...]:
    """What a variable holds comes cut at its blanks, which a gate may have."""
    from assay.evaluation.gates import split_gates

    source = context.get_parameter_source("gate")
    if source is None or source.name == "COMMANDLINE":
        return tuple(given)
    if source.name == "ENVIRONMENT":
        return tuple(split_gates(" ".join(given)))
    return tuple(gate for each in given for gate in split_gates(each))


def exit_code(outcome: "Outcome") -> int:
    if outcome.state == "interrupted":
        return 130
    if outcome.state == "target lost":
        return 3
    if unexamined(outcome):
        return 3
    if not outcome.gates_passed:
        return 1
    answers = outcome.head.get("answers")
    answered = answers["answered"] if answers else outcome.head["summary"]["successful_queries"]
    return 0 if answered else 3


def unexamined(outcome: "Outcome") -> str | None:
    """Why the answers were not all judged, where they were not."""
    answers = outcome.head.get("answers")
    return answers["trouble"] if answers else None


def _compare_with(baseline: str, outcome: "Outcome", data: "Dataset", out: Path) -> bool:
    """Run the baseline on the same queries and keep the comparison in the report.

    False where the baseline was interrupted: half a baseline is nothing to compare with.
    """
    from dataclasses import replace

    from assay.evaluation.comparison import compare_reports
    from assay.evaluation.evaluation import Evaluation
    from assay.evaluation.report_page import write_report_page

    config = replace(outcome.folder.read_config(), target=baseline, baseline="", gates=())
    plan = replace(Evaluation.plan(config, data), baseline_of=outcome.folder.name)
    other = run_evaluation(plan, out, None)
    if other.state == "interrupted":
        say(
            f"the baseline was interrupted; compare with: assay eval --resume {outcome.folder.path}"
        )
        return False
    comparison = compare_reports(other.folder.read_report(), outcome.folder.read_report())
    outcome.head["comparison"] = {"run": other.folder.name, **comparison.to_json()}
    outcome.folder.write_comparison(outcome.head["comparison"])
    write_report_page(outcome.folder, data)
    return True


def _print(outcome: "Outcome", as_json: bool) -> None:
    from assay.report.terminal import plain_text, render_report

    table = render_report(outcome.head, path=str(outcome.folder.path))
    outcome.folder.summary.write_text(plain_text(table), encoding="utf-8")
    if as_json:
        print_report(outcome.folder)
    else:
        show(table)
    if not outcome.head["summary"]["successful_queries"]:
        say("no query was answered: see the failures above")
    elif "answers" in outcome.head and not outcome.head["answers"]["answered"]:
        say(
            "the target found documents and answered no question; --answers wants "
            '{"doc_ids": [...], "answer": "...", "citations": [...]}'
        )
    unknown = outcome.head["violations"]["unknown"]["queries"]
    if unknown and unknown == outcome.head["summary"]["successful_queries"]:
        name = outcome.head["dataset"]["name"]
        say(f"the agent's answers hold ids that {name!r} does not know: is that its --dataset?")
    if trouble := unexamined(outcome):
        say(f"the answers are not all judged: {trouble}")
    if outcome.state != "complete" or trouble:
        say(f"finish it with: assay eval --resume {outcome.folder.path}")
