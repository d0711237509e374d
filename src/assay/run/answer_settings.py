"""The settings of a run that are about answers: a part of `RunConfig`'s table of options."""

from dataclasses import dataclass

from assay.llm.provider_kinds import PROVIDER_FORMS
from assay.run.option import OptionFields
from assay.run.option import option_field as _option

NO_JUDGE = " Default: answers are checked against key facts."
"""The end of the help of `--judge`, where a judge can be left out."""

_answered = OptionFields(group="Answers and judge", needs="answers", same_in_shards=True)
_judged = OptionFields(
    group="Answers and judge", needs="judge", same_in_shards=True, on_resume="free"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """Whether answers are evaluated, who judges them, and how."""

    answers: bool = _option(
        False,
        "Also evaluate answers: whether they are right, faithful and cited, and whether retrieval "
        "or generation causes the wrong ones. For targets that answer.",
        label="Evaluate the answers too",
        same_in_shards=True,
        request_field="answers",
        group="Usual options",
    )
    judge: str = _option(
        "",
        f"With --answers: the model that judges the answers, {PROVIDER_FORMS}; or extractive for "
        f"no model.{NO_JUDGE} [env var: RAG_EVAL_PROVIDER]",
        has_variable=False,
        metavar="SPEC",
        label="Judge",
        placeholder="none: check key facts",
        needs="answers",
        on_resume="free",
        same_in_shards=True,
        group="Usual options",
    )
    judge_votes: int = _judged(
        2,
        "With --judge: how many votes to take per answer, each one call to the model. Half of them "
        "show the reference first, so an odd number is raised by one; a verdict needs a majority "
        "in both orders.",
        metavar="N",
        label="Judge votes",
        low=1,
        high=99,
    )
    judge_controls: int = _judged(
        5,
        "With --judge: test each of its prompts first with this many texts that are right, as many "
        "that are wrong, and up to eight times as many with one change. If it fails, the figure "
        "is left out; if it fails on correctness, exit code 3. 0 for no test.",
        metavar="N",
        label="Judge: control pairs",
        low=0,
        high=100,
    )
    judge_timeout: float | None = _judged(
        None,
        "With --judge: timeout of one call to the judge, in seconds. Default: 120, or 600 for a "
        "model on this machine.",
        metavar="S",
        label="Judge: timeout (seconds)",
        placeholder="120, or 600 on this machine",
        low=0.1,
        same_in_shards=False,
    )
    judge_concurrency: int | None = _judged(
        None,
        "With --judge: how many calls to send to the judge at once. Default: 4, or 1 for a model "
        "on this machine.",
        metavar="N",
        label="Judge: concurrent calls",
        placeholder="4, or 1 on this machine",
        low=1,
        high=1000,
        same_in_shards=False,
    )
    max_cost: float | None = _judged(
        None,
        "With --judge: stop before spending more than this many US dollars.",
        metavar="USD",
        label="Cost limit (US dollars)",
        placeholder="no limit",
        low=0,
        same_in_shards=False,
    )
    no_cache: bool = _judged(
        False,
        "With --judge: ask again for replies that are cached.",
        label="Judge: ask again for cached replies",
        same_in_shards=False,
    )
    criteria: str = _judged(
        "",
        "With --judge: your own criteria, a file (.md) or a folder of files, by which the judge "
        "rates every answer. Each is a metric, criterion.NAME, that gates can use.",
        metavar="FILE|DIR",
        label="Criteria of your own (file or folder)",
        placeholder="none",
    )
    counterfactuals: bool = _answered(
        False,
        "With --answers: ask each question again with the right documents, with none and "
        "with misleading ones, to separate retrieval errors from generation errors.",
        label="Ask again with other documents, to separate retrieval errors from generation errors",
        on_resume="free",
    )
    poison: tuple[str, ...] = _answered(
        (),
        "Ask each question again with a planted document among its sources, once for each kind of "
        "attack, and report how often the answer follows it: override, false_fact, fake_citation, "
        "exfiltration, or all, which need not be written. Turns --answers on.",
        metavar="[KIND,…]",
        label="Plant documents: all, or kinds of attacks, one per line",
        placeholder="none",
    )
    references: tuple[str, ...] = _answered(
        (),
        "With --answers: a file of reference answers or of facts (vital or okay), as assay "
        "ground-truth writes them. Facts are found in the answers by the judge or else by rules. "
        "Repeatable, one of each kind.",
        metavar="FILE",
        label="References: files of answers or facts, one per line",
        placeholder="the data set's own answers",
    )
    faithfulness: str = _answered(
        "",
        "With --answers: also measure faithfulness by a three-class NLI cross-encoder of yours: a "
        "folder with an .onnx file and tokenizer.json, or a model of sentence-transformers.",
        metavar="onnx:DIR|st:NAME",
        label="Faithfulness: a model of yours",
        placeholder="words and values alone",
        on_resume="free",
    )
    judge_calibration: str = _judged(
        "",
        "With --judge: the file that assay judge calibrate --out wrote. Reports and gates say "
        "whether this judge was calibrated on this data.",
        metavar="FILE",
        label="Judge: calibration file",
        placeholder="none",
    )
    require_calibrated: bool = _judged(
        False,
        "With --judge: refuse a gate on a judged figure if the judge was not calibrated on this "
        "data, exit code 2.",
        label="Refuse gates of a judge that was not calibrated",
    )
