"""The one way to run an evaluation, from settings to a compared report.

run = await run_evaluation(config, dataset, out=Path("runs"), events=Events(message=print))

The command line, `assay.evaluate`, the A2A evaluator, `assay bench` and Ray all call it.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from assay.data.dataset import Dataset, Query
from assay.errors import RunError
from assay.evaluation.calling import (
    MAX_REJECTED,
    CallRecorder,
    every_query_is_asked,
    opened_agent,
    retry_policy,
    retry_timeouts_serially,
    run_calls,
    run_write_errors,
    warm_up,
    warm_up_query,
)
from assay.evaluation.gates import (
    Gate,
    gate_ceiling,
    parse_gate,
    regression_gate,
    require_calibrated,
    require_possible,
    with_reference,
)
from assay.evaluation.listeners import RunListener, RunListeners
from assay.evaluation.plan import draw_queries, open_agent, target_record
from assay.evaluation.reporting import ReportInputs, write_report
from assay.evaluation.run import Run
from assay.files import atomic_write, remove_part_files
from assay.metrics.metric import nDCG
from assay.metrics.scoring import score_rankings
from assay.net.retry import PROBE_PAUSES, CircuitBreaker
from assay.privacy import private_mode
from assay.progress import Progress, silent
from assay.report.html import render_run
from assay.run.calls import Call, CallLog, CallWriter, PrivateTexts, steps_file
from assay.run.comparison import ComparedRun, compare_reports
from assay.run.config import RunConfig
from assay.run.folder import RunFolder, create_run, list_runs
from assay.run.models import PacingRecord, RunHeader, RunState, SearchReport
from assay.run.provenance import read_git, read_provenance
from assay.targets.chunks import ChunkResolver, parse_separator
from assay.targets.http_agent import ReportsReadiness
from assay.targets.protocol import Agent, AgentAnswer, AgentInfo, context_taker
from assay.targets.target_kinds import TARGET_KINDS, parse_target

if TYPE_CHECKING:
    from assay.answers.criteria import Criterion
    from assay.evaluation.answers.evaluate import AnswerResults
    from assay.evaluation.answers.nuggets import Nuggets
    from assay.evaluation.gates import ReferenceRun
    from assay.evaluation.recorder import SearchRecorder
    from assay.evaluation.reporting import RightByTrial
    from assay.llm.providers.provider import LLMProvider


_SCORED_AT_ONCE = 2000
_TICK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Tick:
    """How far a run is, for a progress bar."""

    target: str
    done: int
    total: int
    failed: int
    metric: str
    mean: float


class LiveFigures:
    """Figures while a run goes on, computed a few times a second instead of once per call."""

    def __init__(
        self, config: RunConfig, dataset: Dataset, total: int, tell: Callable[[Tick], None]
    ) -> None:
        self._target, self._total, self._tell = config.target, total, tell
        self._metric, self._top_k = nDCG @ config.top_k, config.top_k
        self._judgments = dataset.judgments_in(config.split)
        self._known = dataset.corpus_ids
        self._done = self._scored = self._failed = 0
        self._sum = 0.0
        self._waiting: list[Call] = []
        self._timer: asyncio.TimerHandle | None = None

    def catch_up(self, earlier: Iterable[Call]) -> None:
        """Count the calls of an interrupted run, in batches, before it continues."""
        for call in earlier:
            self._waiting.append(call)
            if len(self._waiting) == _SCORED_AT_ONCE:
                self.publish()
        self.publish()

    def add(self, call: Call) -> None:
        """Count one more call, and report it soon, even if the next calls take long."""
        self._waiting.append(call)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self.publish)

    def publish(self) -> None:
        """Report what was not reported yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        calls, self._waiting = self._waiting, []
        rankings = {
            call.query_id: call.doc_ids for call in calls if call.query_id in self._judgments
        }
        if rankings:
            judgments = {query_id: self._judgments[query_id] for query_id in rankings}
            scores = score_rankings(
                rankings, judgments, [self._metric], known=self._known, top_k=self._top_k
            )
            self._sum += float(scores.values[self._metric].sum())
        self._done += len(calls)
        self._scored += len(rankings)
        self._failed += sum(call.failure is not None for call in calls)
        mean = self._sum / self._scored if self._scored else 0.0
        self._tell(
            Tick(self._target, self._done, self._total, self._failed, str(self._metric), mean)
        )


@dataclass(frozen=True, slots=True)
class Events:
    """What a caller hears of an evaluation while it goes on, and how it ends one early.

    Events(message=print)  # sentences as they come
    events.stop.set()      # send no further query; the run can be resumed

    `opened` gets the run's folder as soon as it exists, `tick` the figures a few times a second,
    and `progress` the stages before the first and after the last query.
    """

    opened: Callable[[RunFolder], None] = lambda _folder: None
    tick: Callable[[Tick], None] = lambda _tick: None
    progress: Progress = silent
    message: Callable[[str], None] = lambda _message: None
    stop: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Evaluation:
    """What is settled before the first call: a bad gate or split is refused here."""

    config: RunConfig
    dataset: Dataset
    queries: Sequence[Query]
    gates: Sequence[Gate]
    probe_pauses: tuple[float, ...] = PROBE_PAUSES
    provider: "LLMProvider | None" = None  # judges answers in place of the one in `config`
    baseline_of: str | None = None  # the name of the run that this one is compared with
    criteria: "Sequence[Criterion]" = ()  # read before the first call: they may change meanwhile
    reference: "ReferenceRun | None" = None  # the earlier run that gates compare with
    nuggets: "Nuggets | None" = None  # what the answers should state

    @classmethod
    def plan(cls, config: RunConfig, dataset: Dataset) -> "Evaluation":
        """Draw the queries, and read gates, criteria and nuggets; raises if one is wrong."""
        gates = [parse_gate(text, config.top_k, config.compare_to) for text in config.gates]
        parse_separator(config.chunk_separator)
        if config.poison:
            from assay.answers.poison_documents import parse_kinds

            parse_kinds(config.poison)
        if config.faithfulness:
            from assay.answers.entailment import open_entailment

            open_entailment(config.faithfulness)  # a wrong model is an error before the first call
        if config.counterfactuals:
            dataset.require_documents("--counterfactuals")
        if config.ground_truth:
            from assay.evaluation.answers.cases import with_ground_truth

            dataset = with_ground_truth(dataset, Path(config.ground_truth))
        first = config.trials[0]
        queries = [replace(query, trial=first) for query in draw_queries(dataset, config)]
        for gate in gates:
            require_possible(gate, gate_ceiling(gate, dataset, config, queries))
        if config.judge:
            require_calibrated(gates, config, [query.text for query in dataset.queries.values()])
        criteria: Sequence[Criterion] = ()
        if config.criteria:
            from assay.answers.criteria import read_criteria

            criteria = read_criteria(Path(config.criteria))
        nuggets = None
        if config.nuggets:
            from assay.evaluation.answers.nuggets import nuggets_of_dataset

            nuggets = nuggets_of_dataset(Path(config.nuggets), dataset, queries)
        return cls(config, dataset, queries, gates, criteria=criteria, nuggets=nuggets)

    @property
    def asks(self) -> list[Query]:
        """Every question as often as `--repeat` says, in an order that mixes the trials."""
        trials = self.config.trials
        asks = [replace(query, trial=trial) for trial in trials for query in self.queries]
        if len(trials) > 1:
            random.Random(self.config.seed).shuffle(asks)
        return asks

    @asynccontextmanager
    async def _opened(self, agent: Agent, events: Events) -> AsyncIterator[None]:
        with private_mode(self.config.private):
            async with opened_agent(agent, self.config, events.message, events.stop):
                if self.config.poison:  # who asks for it does not want a run without it
                    from assay.evaluation.answers.poisoning import require_plantable

                    require_plantable(agent, self.config.target)
                yield

    async def start(self, agent: Agent, out: Path, events: Events | None = None) -> Run:
        """Open the agent, make a run folder in `out`, ask every query, and write the report."""
        events = events or Events()
        async with self._opened(agent, events):
            if agent.info.protocol == "mcp":  # which of its tools is called was our choice
                events.message(f"target: {agent.info.details}")
            folder = create_run(
                out,
                self.config,
                self.dataset,
                target_record(agent.info, self.config.target_name),
                track=agent.info.track,
                retriever=agent.info.retriever,
                references=self.dataset.references_fingerprint if self.config.answers else None,
                baseline_of=self.baseline_of,
                provenance=await asyncio.to_thread(read_provenance),  # it waits for git
            )
            events.opened(folder)
            return await self._run(agent, folder, events)

    async def resume(
        self,
        agent: Agent,
        folder: RunFolder,
        events: Events | None = None,
        accept_other_agent: bool = False,
    ) -> Run:
        """Ask what was not asked yet; recorded calls, successful or failed, are kept."""
        events = events or Events()
        header = folder.read_header()
        known, name = header.dataset, self.config.ground_truth or self.dataset.name
        references = known.references in (None, self.dataset.references_fingerprint)
        if known.fingerprint != self.dataset.fingerprint or not references:
            other = "data" if references else "reference answers"
            raise RunError(
                f"run {folder.name!r} was made on other {other} than {name!r} has now; resume it "
                "with those that it was started on"
            )
        if is_asked := self._is_asked(folder):
            events.message(f"every query of {folder.name} was asked before; none is sent again")
        events.opened(folder)
        async with self._opened(agent, events):
            if not is_asked and (change := agent_change(header, agent.info)):
                if not accept_other_agent:
                    raise RunError(
                        f"{change}; start a new run, or accept one figure of both: assay eval "
                        f"TARGET --resume {folder.name}"
                    )
                events.message(f"warning: {change}; its figures mix both")
            return await self._run(agent, folder, events)

    def _is_asked(self, folder: RunFolder) -> bool:
        log = CallLog(folder.calls_file)
        return not self._forgets and all(query in log for query in self.asks)

    @property
    def _forgets(self) -> bool:
        """Whether answers are kept only in memory, so that resuming asks every question again."""
        return self.config.private and self.config.answers

    async def _run(self, agent: Agent, folder: RunFolder, events: Events) -> Run:
        if self.config.split in agent.info.learned_from:
            events.message(
                f"warning: {agent.info.name} learned from the {self.config.split} judgments "
                "that it is evaluated on, so its scores do not generalize to other queries"
            )
        private = PrivateTexts.of(self.dataset) if self.config.private else None
        with CallWriter(folder.calls_file, private) as writer:
            remove_part_files(folder.path)  # of a process that was killed: no other writes here
            async with self._recording(folder, events) as recorder:
                state, seconds = await self._ask(agent, folder, writer, events, recorder)
                with run_write_errors(folder):
                    log = CallLog(folder.calls_file, private)
                    asked = list(self.queries)
                    if state == RunState.INTERRUPTED:  # a partial report speaks of what was asked
                        asked = [query for query in asked if query in log]
                    results, right = await self._examine(agent, folder, log, asked, events, state)
                    if state == RunState.COMPLETE and results is not None and results.trouble:
                        lost = RunState.TARGET_LOST if results.target_lost else RunState.NOT_JUDGED
                        state = RunState.INTERRUPTED if events.stop.is_set() else lost
                    found = ReportInputs(log, asked, state, seconds, results, right)
                    search = await self._measure_searches(found, folder, recorder)
                    return Run(folder, write_report(folder, self, replace(found, search=search)))

    @asynccontextmanager
    async def _recording(
        self, folder: RunFolder, events: Events
    ) -> "AsyncIterator[SearchRecorder | None]":
        """The recorder of `--search`, unless a finished run has what the search tool can tell."""
        known = self._is_asked(folder) and folder.searches_file.exists()
        if known or not (self.config.search or self.config.searches):
            yield None
            return
        from assay.evaluation.recorder import open_recorder

        async with open_recorder(self.config, self.dataset, events.message) as recorder:
            yield recorder

    async def _measure_searches(
        self, found: ReportInputs, folder: RunFolder, recorder: "SearchRecorder | None"
    ) -> "SearchReport | None":
        if recorder is None and not steps_file(folder.calls_file).exists():
            return None
        from assay.evaluation.searching import SearchedCalls, measure_searches, summarize_searches

        searched = SearchedCalls(self.config, self.dataset, found.asked, found.log.read)
        if recorder is not None or not folder.searches_file.exists():
            # A run that is stopped does not wait for a search tool.
            stopped = found.state == RunState.INTERRUPTED
            tool = recorder.tool if recorder and not stopped else None
            folder.write_searches(await measure_searches(searched, tool))
        return summarize_searches(
            searched,
            folder.read_searches(),
            unattributed=recorder.unattributed if recorder else 0,
            right=found.right[0] if found.right else None,
        )

    async def _ask(
        self,
        agent: Agent,
        folder: RunFolder,
        writer: CallWriter,
        events: Events,
        searches: "SearchRecorder | None",
    ) -> tuple[RunState, float]:
        """Send the queries that were not sent yet; the state of the run, and its seconds."""
        config, log = self.config, CallLog(folder.calls_file)
        todo = [query for query in self.asks if self._forgets or query not in log]
        live = LiveFigures(config, self.dataset, len(self.asks), events.tick)
        before = [] if self._forgets else self.asks
        live.catch_up(call for call in log.read(before) if call)
        late_asked = every_query_is_asked(folder)
        serial = bool(todo) and await self._warm_up(agent, folder, events, searches)
        # One that runs here, such as a Python function, has no token of ours to refuse.
        may_refuse = isinstance(agent, ReportsReadiness) and len(todo) > MAX_REJECTED
        protocol = agent.info.protocol if may_refuse else None
        recorder = CallRecorder(folder, writer, live.add, events.message, log.elapsed, protocol)
        breaker = self._breaker(events)
        resolver = ChunkResolver(config.chunk_separator, self.dataset.documents)

        async def send(query: Query) -> AgentAnswer:
            async with searches.question(query) if searches else nullcontext():
                return resolver.resolve(await agent.ask(query.text, config.top_k))

        def with_searches(call: Call) -> Call:
            if searches is None:  # then those that the agent reports are kept
                return call
            steps = searches.take_steps(call.key)
            return replace(call, steps=resolver.resolve(AgentAnswer((), steps=steps)).steps)

        policy = retry_policy(config.timeout, config.retries)
        ask = partial(run_calls, send, policy=policy, stop=events.stop)
        gone = await ask(
            todo,
            concurrency=1 if serial else config.concurrency,
            breaker=breaker,
            on_call=lambda call: recorder.add(with_searches(call)),
        )
        if not (breaker.lost or late_asked or events.stop.is_set()):
            log_now = CallLog(folder.calls_file)
            await retry_timeouts_serially(
                ask,
                self.asks,
                log_now,
                on_call=lambda call: recorder.write(with_searches(call)),
                say=events.message,
            )
        live.publish()
        seconds = recorder.seconds if todo else log.elapsed
        if breaker.lost:
            with run_write_errors(folder):
                for key in gone:
                    writer.withdraw(key)
            return RunState.TARGET_LOST, seconds
        return RunState.INTERRUPTED if events.stop.is_set() else RunState.COMPLETE, seconds

    async def _warm_up(
        self, agent: Agent, folder: RunFolder, events: Events, searches: "SearchRecorder | None"
    ) -> bool:
        """Wait until the agent can work; whether it has to be asked one question at a time."""
        query, config, serial = warm_up_query(self.dataset, self.queries), self.config, False
        async with searches.question(query) if searches else nullcontext():
            found = await warm_up(agent, query, config, say=events.message, stop=events.stop)
        if searches is not None:
            serial = await searches.rehearse(agent, query, config, events.message)
        if found is not None:
            header, pacing = folder.read_header(), PacingRecord(warm_up=found)
            folder.write_header(header.model_copy(update={"pacing": pacing}))
        return serial

    async def _examine(
        self,
        agent: Agent,
        folder: RunFolder,
        log: CallLog,
        asked: Sequence[Query],
        events: Events,
        state: RunState,
    ) -> "tuple[AnswerResults | None, RightByTrial]":
        """The answers of the first trial in full; of every trial, whether they are right."""
        if not self.config.answers:
            return None, ()
        from assay.evaluation.answers.asking_again import CounterfactualRunner
        from assay.evaluation.answers.cases import cases_of
        from assay.evaluation.answers.evaluate import (
            AnswerResults,
            evaluate_answers,
            results_by_rules,
        )
        from assay.evaluation.answers.judging import open_judge

        config = self.config
        trials = []
        for trial in config.trials:
            queries = [replace(query, trial=trial) for query in asked]
            calls = list(log.read(queries))
            trials.append(cases_of(self.dataset, config.split, queries, calls, config.top_k))
        if state != RunState.COMPLETE:  # a partial run is not judged
            if self.provider is not None or config.judge:
                return AnswerResults(trials[0]), ()
            by_rules = [results_by_rules(cases, self.nuggets) for cases in trials]
            return by_rules[0], tuple(each.right for each in by_rules)
        if config.counterfactuals and context_taker(agent) is None:
            events.message(
                f"{config.target} does not accept documents as context, so no question "
                "is asked again: failures are diagnosed from this run alone"
            )
        asker = CounterfactualRunner(
            self.dataset,
            config,
            events.stop,
            events.progress,
            breaker=partial(self._breaker, events),
        )
        of_run = replace(asker, agent=agent, folder=folder.path)
        async with open_judge(config, self.provider, folder.path) as judge:
            results = await evaluate_answers(
                trials[0], judge, of_run, nuggets=self.nuggets, criteria=self.criteria
            )
        right = [results.right]
        for cases in trials[1:]:
            async with open_judge(config, self.provider) as judge:
                other = await evaluate_answers(cases, judge, asker)
            right.append(other.right)
        return results, tuple(right)

    def _breaker(self, events: Events) -> CircuitBreaker:
        return CircuitBreaker(pauses=self.probe_pauses, on_change=events.message)


def agent_change(header: RunHeader, info: AgentInfo) -> str:
    """How the agent differs from the one that started the run; "" if it does not."""
    before, now = header.target.agent, info.agent
    if info.protocol == "python":  # its code is in the working folder
        git = read_git()
        before = header.repository.commit
        now = git.commit if git else None
    if not before or not now or before == now:
        return ""
    return f"the run was started with {before[:80]}, and the target is now {now[:80]}"


async def run_evaluation(
    config: RunConfig,
    dataset: Dataset,
    *,
    out: Path,
    agent: Agent | None = None,
    baseline: Agent | None = None,
    resume: RunFolder | None = None,
    accept_other_agent: bool = False,
    provider: "LLMProvider | None" = None,
    listeners: Sequence[str | RunListener] = (),
    events: Events | None = None,
) -> Run:
    """Ask every query of the plan, write the report, and compare it with what the settings name.

    `agent`, `baseline` and `provider` stand in for what the settings name. `resume` is a run to
    finish instead of a new one; `accept_other_agent` goes on although the agent has changed since.
    Raises `AssayError` for whatever is wrong before the first query.
    """
    events = events or Events()
    plan = replace(plan_evaluation(config, dataset, out, events, resume), provider=provider)
    agent = agent or open_agent(config, dataset, events.progress)
    if config.baseline and baseline is None:  # a wrong one is reported before the run, not after it
        baseline = open_agent(_baseline_config(config, config.baseline), dataset, events.progress)
    with RunListeners(listeners, events.message) as following:

        def opened(folder: RunFolder) -> None:
            events.opened(folder)
            following.started(folder)

        heard = replace(events, opened=opened)
        if resume is None:
            run = await plan.start(agent, out, heard)
        else:
            run = await plan.resume(agent, resume, heard, accept_other_agent)
        run = await compare_run(plan, run, out, baseline=baseline, events=events)
        following.finished(run)
    return run


def plan_evaluation(
    config: RunConfig, dataset: Dataset, out: Path, events: Events, resume: RunFolder | None = None
) -> Evaluation:
    """The queries, gates and reference of a run; says so if there is no reference yet."""
    return with_reference(Evaluation.plan(config, dataset), out, resume, events.message)


async def compare_run(
    plan: Evaluation,
    run: Run,
    out: Path,
    *,
    baseline: Agent | None = None,
    events: Events | None = None,
) -> Run:
    """The run with its comparison: with the earlier run of the plan, or with its baseline.

    A baseline that was run for it before is used, or finished; one that is interrupted leaves the
    run without a comparison, since a part of it would be compared with the whole.
    """
    events = events or Events()
    target = plan.config.baseline
    if run.state != RunState.COMPLETE or not (target or plan.reference):
        return run
    if (reference := plan.reference) is not None:
        if reference.problem:
            return run
        return _write_comparison(run, reference.folder, plan.dataset)
    second = replace(
        Evaluation.plan(_baseline_config(run.report.config, target), plan.dataset),
        baseline_of=run.name,
        provider=plan.provider,
    )
    baseline = baseline or open_agent(second.config, plan.dataset, events.progress)
    of_run = (run.name, target)
    made = (folder for folder in reversed(list(list_runs(out))) if folder.is_baseline())
    headers = ((folder, folder.read_header()) for folder in made)
    found = next((f for f, h in headers if (h.baseline_of, h.config.target) == of_run), None)
    unopened = replace(events, opened=Events().opened)  # the run is told of, its baseline is not
    try:
        if found is None:
            other = await second.start(baseline, out, unopened)
        else:
            other = await second.resume(baseline, found, unopened)
    except KeyboardInterrupt:  # before its first response
        if not events.stop.is_set():
            raise
        other = None
    if other is None or other.state == RunState.INTERRUPTED:
        resume = f"assay eval --resume {run.folder}"
        events.message(f"the baseline was interrupted; compare with: {resume}")
        return run
    return _write_comparison(run, other.folder, plan.dataset)


def _baseline_config(config: RunConfig, target: str) -> RunConfig:
    """The same queries and settings, without gates; `track` is about the target under test."""
    own = TARGET_KINDS[parse_target(target).kind].searches_dataset
    track = "undeclared" if own else config.track
    return config.with_changes(
        target=target, baseline="", compare_to="", gates=(), track=track, poison=()
    )


def _write_comparison(run: Run, other: RunFolder, dataset: Dataset) -> Run:
    """Compare, and keep the comparison in the files of `run`; a regression may fail a gate."""
    found = compare_reports(ComparedRun.read(other), ComparedRun.read(run.folder), dataset=dataset)
    comparison = found.model_copy(update={"run": other.name})
    if run.report.config.fail_on_regression:
        gate = regression_gate(comparison, run.report.summary.total_queries)
        comparison = comparison.model_copy(update={"gate": gate})
    run.folder.write_comparison(comparison)
    atomic_write(run.folder.page_file, render_run(run.folder, dataset).encode())
    return Run(run.folder, run.folder.read_report())
