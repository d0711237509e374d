"""The settings of a run that are about answers: a part of `RunConfig`'s table of options."""

from dataclasses import dataclass

from assay.answer.provider_kinds import PROVIDER_FORMS
from assay.run.option import option_field as _option


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """Whether answers are evaluated, who judges them, and how."""

    answers: bool = _option(
        False,
        "Evaluate the answers too: whether they are right, faithful and cited, and whether "
        "retrieval or generation causes the wrong ones. For targets that answer.",
        label="Evaluate the answers too",
        widget="checkbox",
        same_in_shards=True,
        request_field="answers",
        group="Usual options",
    )
    judge: str = _option(
        "",
        f"With --answers: the model that judges the answers, {PROVIDER_FORMS}; or extractive for "
        "no model. Default: answers are checked against key facts. "
        "[env var: RAG_EVAL_PROVIDER]",
        env=None,
        metavar="SPEC",
        label="Judge",
        placeholder="none: check key facts",
        needs="answers",
        on_resume="free",
        same_in_shards=True,
        group="Usual options",
    )
    judge_votes: int = _option(
        2,
        "With --judge: how many votes to take per answer, each one call to the model. Half of them "
        "show the reference first, so an odd number is raised by one; a verdict needs a majority "
        "in both orders.",
        metavar="N",
        label="Judge votes",
        widget="number",
        low=1,
        high=99,
        needs="judge",
        on_resume="free",
        same_in_shards=True,
        group="Answers and judge",
    )
    judge_max_flips: float = _option(
        0.2,
        "With --judge: the share of answers about which the judge may say both TRUE and FALSE. "
        "Above it the run is not judged, exit code 3.",
        metavar="SHARE",
        label="Judge: highest flip rate",
        widget="number",
        low=0,
        high=1,
        needs="judge",
        on_resume="free",
        same_in_shards=True,
        group="Answers and judge",
    )
    judge_controls: int = _option(
        5,
        "With --judge: how many references to put before the judge against themselves, as many "
        "against another question's, and as many with one change, before it judges. A judge that "
        "fails most of any kind is not believed: the run is not judged, exit code 3. 0 for none.",
        metavar="N",
        label="Judge: control pairs",
        widget="number",
        low=0,
        high=100,
        needs="judge",
        on_resume="free",
        same_in_shards=True,
        group="Answers and judge",
    )
    judge_timeout: float | None = _option(
        None,
        "With --judge: timeout of one call to the judge in seconds. Default: 120, or 600 for a "
        "model on this machine.",
        metavar="S",
        label="Judge: timeout (seconds)",
        placeholder="120, or 600 on this machine",
        widget="number",
        low=0.1,
        needs="judge",
        on_resume="free",
        group="Answers and judge",
    )
    judge_concurrency: int | None = _option(
        None,
        "With --judge: how many calls to send to the judge at once. Default: 4, or 1 for a model "
        "on this machine.",
        metavar="N",
        label="Judge: concurrent calls",
        placeholder="4, or 1 on this machine",
        widget="number",
        low=1,
        high=1000,
        needs="judge",
        on_resume="free",
        group="Answers and judge",
    )
    max_cost: float | None = _option(
        None,
        "With --judge: stop before spending more than this many US dollars.",
        metavar="USD",
        label="Cost limit (US dollars)",
        placeholder="no limit",
        widget="number",
        low=0,
        needs="judge",
        on_resume="free",
        group="Answers and judge",
    )
    criteria: str = _option(
        "",
        "With --judge: a file or a folder of files (.md) with criteria of your own, which the "
        "judge rates every answer by."
        " Each is a metric, criterion.NAME, and may have a gate.",
        group="Answers and judge",
        metavar="FILE|DIR",
        label="Criteria of your own (file or folder)",
        placeholder="none",
        needs="judge",
        on_resume="free",
        same_in_shards=True,
    )
    reasons: bool = _option(
        False,
        "With --criteria: ask the judge also why, in a call of its own that decides nothing.",
        group="Answers and judge",
        label="Ask the judge for a reason of each rating",
        widget="checkbox",
        needs="criteria",
        on_resume="free",
    )
    counterfactuals: bool = _option(
        False,
        "With --answers: ask each question again with the right documents, with none and "
        "with misleading ones, to separate retrieval errors from generation errors.",
        label="Ask again with other documents, to separate retrieval errors from generation errors",
        widget="checkbox",
        needs="answers",
        on_resume="free",
        same_in_shards=True,
        group="Answers and judge",
    )
    poison: bool = _option(
        False,
        "Ask each question again with a planted document among its sources, once for each kind of "
        "attack, and report how often the answer follows it. Turns --answers on.",
        label="Plant poisoned documents, and report how often answers follow them",
        widget="checkbox",
        needs="answers",
        same_in_shards=True,
        group="Answers and judge",
    )
    poison_kinds: tuple[str, ...] = _option(
        (),
        "With --poison: which attacks, of override, false_fact, fake_citation and exfiltration. "
        "Repeatable, or with commas between them. Default: all.",
        flag="--poison-kind",
        param="poison_kind",
        env="ASSAY_POISON_KIND",
        metavar="KIND",
        label="Attacks, one per line",
        placeholder="all",
        widget="lines",
        needs="poison",
        same_in_shards=True,
        group="Answers and judge",
    )
    poison_into: str = _option(
        "contexts",
        "With --poison: where to plant. contexts: among the documents that the target is given to "
        "answer from; index: among those that it searches, for as long as the run takes.",
        metavar="PLACE",
        label="Where to plant them",
        widget="select",
        choices=("contexts", "index"),
        needs="poison",
        same_in_shards=True,
        group="Answers and judge",
    )
    ground_truth: str = _option(
        "",
        "With --answers: a file of reference answers written by assay ground-truth, "
        "for a data set that has none.",
        metavar="FILE",
        label="Ground truth file",
        placeholder="the data set's own answers",
        needs="answers",
        same_in_shards=True,
        group="Answers and judge",
    )
    nuggets: str = _option(
        "",
        "With --answers: a file of nuggets written by assay ground-truth --nuggets. Measures which "
        "of them the answers state: by the judge, else by rules.",
        metavar="FILE",
        label="Nuggets file",
        placeholder="none",
        needs="answers",
        on_resume="free",
        same_in_shards=True,
        group="Answers and judge",
    )
    judge_calibration: str = _option(
        "",
        "With --judge: the file that assay judge calibrate --out wrote. Reports and gates say "
        "whether this judge was calibrated on this data.",
        metavar="FILE",
        label="Judge: calibration file",
        placeholder="none",
        needs="judge",
        on_resume="free",
        same_in_shards=True,
        group="Answers and judge",
    )
    require_calibrated: bool = _option(
        False,
        "With --judge: refuse a gate on a judged figure whose judge was not calibrated on this "
        "data, exit code 2.",
        label="Refuse gates of a judge that was not calibrated",
        widget="checkbox",
        needs="judge",
        on_resume="free",
        same_in_shards=True,
        group="Answers and judge",
    )
