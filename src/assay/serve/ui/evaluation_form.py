"""The fields of the form that starts an evaluation: read, checked, and described in its words.

They are those of the table of options: a new option appears here by itself.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import get_args
from urllib.parse import urlencode

from assay.errors import AssayError, UsageError
from assay.evaluation.gates import parse_gate
from assay.evaluation.plan import http_request_settings, require_used_settings
from assay.llm.passages import EXTRACTIVE
from assay.net.redact import full_text
from assay.run.config import MAY_HOLD_SECRETS, RunConfig, option_table
from assay.run.option import Group, check_range
from assay.run.settings import RunSetting, form_fields, form_settings, read_form
from assay.serve.ui.check import TargetRules
from assay.serve.ui.context import Ui
from assay.targets.opening import parse_target
from assay.targets.target_kinds import TARGET_KINDS

SHOWN = "settings_of"
"""The field with the name of the target of assay.toml whose settings the form was filled with."""

_LONG_LABEL = 40
_LONG_HELP = 170
# Settings that are sent to a target and to a baseline alike.
_SENT = ("headers", "request")
_COMMAND_LINE = re.compile(r"; exit code \d.*| Repeatable[.,].*| Default: RAG_EVAL_PROVIDER.*")
_GIVEN_FLAG = re.compile(r"\b(?:add|pass|set) (--[a-z0-9-]+)(?: (\d[\w.]*))?")
_FLAG = re.compile(r"--[a-z0-9-]+(?: TARGET| NAME\|PATH| NAME)?")
_OPENING = "Usual options"


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of the form: its setting, its text, and the list that suggests values."""

    setting: RunSetting
    value: str
    suggestions: str = ""
    problem: str = ""

    @property
    def help(self) -> str:
        """The help of the option, without parts that only apply to the command line."""
        return in_web_words(_COMMAND_LINE.sub("", self.setting.option.help))

    @property
    def wide(self) -> bool:
        """Whether the field takes a row of its own."""
        option = self.setting.option
        long = len(option.label or "") > _LONG_LABEL or len(self.help) > _LONG_HELP
        return long or self.setting.widget == "lines" or self.is_box

    @property
    def is_box(self) -> bool:
        """Whether it is ticked rather than filled in."""
        return self.setting.kind is bool

    @property
    def required(self) -> bool:
        """Whether an empty field is an error."""
        return not self.setting.nullable and bool(self.setting.format(self.setting.default))

    @property
    def step(self) -> str:
        """Of a number: 1 for an integer, any for others."""
        return "1" if self.setting.kind is int else "any"

    @property
    def is_default(self) -> bool:
        """Whether the field has nothing that a visitor would have to see."""
        return not self.problem and self.value == self.setting.format(self.setting.default)


@dataclass(frozen=True, slots=True)
class FormGroup:
    """A section of the form; `opened` where it is shown at once."""

    title: str
    fields: list[FormField] = field(default_factory=list)

    @property
    def opened(self) -> bool:
        return self.title == _OPENING or not all(each.is_default for each in self.fields)


def form_groups(given: Mapping[str, str], problems: Mapping[str, str]) -> list[FormGroup]:
    """The fields by the sections that `assay eval --help` has, each with its text and problem."""
    suggestions = {"dataset": "datasets", "baseline": "targets"}
    groups = {title: FormGroup(title) for title in get_args(Group)}
    for setting in form_settings():
        name = setting.name
        found = FormField(
            setting, given.get(name, ""), suggestions.get(name, ""), problems.get(name, "")
        )
        groups[setting.option.group].fields.append(found)
    for group in groups.values():
        group.fields.sort(key=lambda each: each.wide and each.setting.name != "dataset")
    return [group for group in groups.values() if group.fields]


def short_label(setting: RunSetting) -> str:
    """What the form calls a setting, without remarks: Timeout, not Timeout (seconds)."""
    return re.split(r", | \(", setting.option.label or setting.name)[0]


@lru_cache(maxsize=1000)
def in_web_words(message: str) -> str:
    """A message for the command line as the form says it: no flags, but the names of fields."""
    labels = {each.flag: each for each in form_settings()}

    def given(match: re.Match[str]) -> str:
        setting = labels.get(match[1])
        if setting is None:
            return match[0]
        name = f"“{short_label(setting)}”"
        if match[2]:
            return f"set {name} to {match[2]}"
        return f"tick {name}" if setting.kind is bool else f"fill in {name}"

    def named(match: re.Match[str]) -> str:
        flag = match[0].partition(" ")[0]
        return f"“{short_label(labels[flag])}”" if flag in labels else match[0]

    message = _FLAG.sub(named, _GIVEN_FLAG.sub(given, message))
    for setting in form_settings():  # messages begin with the name; plain words may be words
        name = rf"^{setting.name}" + (r"\b" if "_" in setting.name else r"(?= must\b)")
        message = re.sub(name, short_label(setting), message)
    return message.removeprefix("error: ")


def environment_judge() -> str:
    """The judge that the environment names: it is shown in the form before it is used."""
    from assay.llm.providers.opening import configured_spec

    spec = configured_spec() or ""
    return "" if spec == EXTRACTIVE else spec


def read_config(given: Mapping[str, str]) -> RunConfig:
    """The settings of a form. Raises `UsageError` for what the run itself would refuse."""
    fields = dict(given)
    if not fields.get("answers") and fields.get("judge", "").strip() == environment_judge():
        fields["judge"] = ""  # it was filled in by default, and the visitor did not request answers
    return read_form(fields)


def form_problems(ui: Ui, given: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with a form, by the name of the field; "" for what is about several."""
    problems = {}
    for setting in form_settings():
        try:
            if setting.name in given:
                check_range(setting.name, setting.parse(given[setting.name]), setting.option)
        except UsageError as error:
            problems[setting.name] = in_web_words(str(error))
    if problems:
        return problems
    try:
        config = read_config(with_named_target(ui, given))
    except AssayError as error:
        first = str(error).partition(" ")[0]
        fields = (each.name for each in form_settings() if each.name in (first, f"{first}s"))
        return {next(fields, ""): in_web_words(str(error))}
    for name, check in _checks(ui, config):
        try:
            check()
        except AssayError as error:
            problems.setdefault(name, in_web_words(str(error)))
    return problems


def check_allowed(ui: Ui, config: RunConfig) -> None:
    """Raise `UsageError` for what may not be evaluated from the pages, or could not start."""
    for _, check in _checks(ui, config):
        check()


def _checks(ui: Ui, config: RunConfig) -> Iterator[tuple[str, Callable[[], object]]]:
    """What has to hold before an evaluation starts, with the field that it is about."""
    from assay.llm.providers.opening import open_model

    rules = TargetRules(ui.policy)
    yield "target", partial(rules.check_target, config.target)
    yield "dataset", partial(rules.check_dataset, config.dataset)
    for gate in config.gates:
        yield "gates", partial(parse_gate, gate, config.top_k, config.compare_to)
    if config.baseline:
        yield "baseline", partial(rules.check_target, config.baseline)
    yield "criteria", partial(rules.check_file, "criteria", config.criteria)
    calibration = config.judge_set.calibration
    yield "judge_set", partial(rules.check_file, "judge_set calibration", calibration)
    for file in config.references:
        yield "references", partial(rules.check_file, "references", file)
    yield "compare_to", partial(rules.check_run_name, config.compare_to)
    asked = http_request_settings(config), config.mapping
    yield "request", partial(rules.check_request, *asked)
    yield "target", partial(require_used_settings, config, given=option_table())
    yield "embedder", partial(rules.check_embedder, config.embedder)
    yield "faithfulness", partial(rules.check_file, "faithfulness", config.faithfulness)
    yield "judge", partial(rules.check_judge, config.judge)
    if config.judge:  # a wrong name is reported before the run, not after it
        yield "judge", partial(open_model, config.judge)


def with_named_target(ui: Ui, given: Mapping[str, str]) -> dict[str, str]:
    """The form with the settings of a target of assay.toml, where its name was entered.

    What the visitor has changed wins over the file. A form that was filled in with these settings
    (`SHOWN`) lacks only those that may hold secrets.
    """
    target = given.get("target", "").strip()
    config = ui.named.get(target)
    if config is None:
        return dict(given)
    defaults = form_defaults()
    fields = form_fields(config)
    for name in MAY_HOLD_SECRETS:
        value = getattr(config, name)
        texts: Sequence[str] = [value] if isinstance(value, str) else value
        fields[name] = "\n".join(map(full_text, texts))
    own = {
        name: text
        for name, text in fields.items()
        if text != defaults[name]
        and given.get(name, defaults[name]) in ("", defaults[name])
        and (given.get(SHOWN) != target or name in MAY_HOLD_SECRETS)
    }
    sent = [
        short_label(each) for each in form_settings() if each.name in own and each.name in _SENT
    ]
    baseline = given.get("baseline", "").strip()
    if sent and baseline and ui.policy.public_only and not _sends_nothing(baseline):
        raise UsageError(
            f"baseline must be a built-in one for this target: {' and '.join(sent)} of assay.toml "
            "would be sent to it, and may hold a key"
        )
    return {**given, **own, "target": fields["target"]}


def _sends_nothing(target: str) -> bool:
    return TARGET_KINDS[parse_target(target).kind].sends_nothing


def shown_settings(ui: Ui, target: str) -> dict[str, str]:
    """The fields that a target of assay.toml fills in, without what may be secret."""
    if target not in allowed_targets(ui):
        return {}
    defaults = form_defaults()
    fields = form_fields(ui.named[target]).items()
    own = {name: text for name, text in fields if name not in MAY_HOLD_SECRETS}
    return {SHOWN: target} | {name: text for name, text in own.items() if text != defaults[name]}


def allowed_targets(ui: Ui) -> dict[str, str]:
    """The targets of assay.toml that may be evaluated here, as they are shown."""
    found = {}
    for name, config in ui.named.items():
        try:
            check_allowed(ui, config)
        except AssayError:
            continue
        found[name] = str(config.target)
    return found


def repeat_query(config: RunConfig, hide: Callable[[str], str] = str) -> str:
    """The query of the address at which the form is filled in as for this run.

    Fields with their defaults are left out, but for the judge, which the environment may name.
    `hide` masks secrets in texts.
    """
    defaults = form_defaults()
    fields = {
        name: hide(text)
        for name, text in form_fields(config).items()
        if text != defaults[name] or (name == "judge" and config.answers)
    }
    return urlencode(fields)


def form_defaults() -> dict[str, str]:
    """The text of every field before anybody fills it in."""
    return form_fields(RunConfig(target=""))


def unchecked(fields: Mapping[str, str]) -> dict[str, str]:
    """Without the boxes: a browser sends nothing for one that is not ticked."""
    boxes = {setting.name for setting in form_settings() if setting.kind is bool}
    return {name: text for name, text in fields.items() if name not in boxes}
