"""The metrics, as objects that are written as they are read: `nDCG @ 5` is `nDCG@5`.

Other packages add metrics by entry points of the group `assay.metrics`, see `per_query`.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from assay.errors import UsageError, closest
from assay.metrics import formulas
from assay.metrics.formulas import Floats, Formula, GradedLists


class _Definition(NamedTuple):
    key: str
    formula: Formula
    cutoff: Literal["required", "optional", "none"]
    aliases: tuple[str, ...] = ()


GROUP = "assay.metrics"
_EXPONENTIAL = "nDCG(gain=exp)"
_CONDENSED = "nDCG(judged_only=True)"

_DEFINITIONS: dict[str, _Definition] = {
    "nDCG": _Definition("ndcg", formulas.ndcg(formulas.linear), "optional", ("ndcg_cut",)),
    _EXPONENTIAL: _Definition("ndcg_exp", formulas.ndcg(formulas.exponential), "optional"),
    "Recall": _Definition("recall", formulas.recall, "optional", ("r", "rec")),
    "CappedRecall": _Definition(
        "capped_recall", formulas.capped_recall, "required", ("cappedrecall", "recall_cap")
    ),
    "Precision": _Definition("precision", formulas.precision, "required", ("p", "prec")),
    "MRR": _Definition("mrr", formulas.reciprocal_rank, "optional", ("rr", "recip_rank")),
    "AP": _Definition("ap", formulas.average_precision, "optional", ("map", "map_cut")),
    "Rprec": _Definition("rprec", formulas.r_precision, "none", ("r_prec", "r_precision")),
    "Hit": _Definition("hit", formulas.hit, "optional", ("hits", "hit_rate", "success")),
    "Judged": _Definition("judged", formulas.judged, "required"),
    _CONDENSED: _Definition(
        "ndcg_judged", formulas.condensed_ndcg, "optional", ("ndcg(judged_only)", "condensed_ndcg")
    ),
    "bpref": _Definition("bpref", formulas.bpref, "none"),
    "infNDCG": _Definition("infndcg", formulas.inferred_ndcg, "optional", ("inf_ndcg",)),
}


def _find_definition(name: str) -> _Definition | None:
    """The definition of a metric, also of one that an installed package adds."""
    if name in _DEFINITIONS:
        return _DEFINITIONS[name]
    # Late: it reads the metadata of every installed package, which Assay's own metrics need not.
    from assay.extras import find_plugin, load_plugin

    point = find_plugin(GROUP, name)
    if point is None:
        return None
    plugin = load_plugin(point)
    function = plugin() if isinstance(plugin, type) else plugin
    _DEFINITIONS[name] = _Definition(name, formulas.per_query(function, name), "optional")
    _NAMES[name] = name
    return _DEFINITIONS[name]


@dataclass(frozen=True, repr=False)
class Metric:
    """One measure of a ranked list, between 0 and 1: `nDCG @ 10` or `parse_metric("ndcg@10")`.

    Attributes:
        name: The metric without its cut-off: `nDCG`, `Recall`, `nDCG(gain=exp)`.
        cutoff: How many places of the ranking count, or None for all of them.
    """

    name: str
    cutoff: int | None = None

    def __post_init__(self) -> None:
        takes_none = self._definition.cutoff == "none"
        is_count = type(self.cutoff) is int and self.cutoff >= 1
        if self.cutoff is not None and (takes_none or not is_count):
            wanted = "no cut-off" if takes_none else "an integer >= 1 as its cut-off"
            raise UsageError(f"{self.name} takes {wanted}, got {self.cutoff!r}")

    def __matmul__(self, cutoff: int) -> "Metric":
        """The same metric over the first `cutoff` places: `nDCG @ 10`."""
        return replace(self, cutoff=cutoff)

    def __call__(self, *, gain: str = "linear", judged_only: bool = False) -> "Metric":
        """The same metric with another gain, `nDCG(gain="exp") @ 5`, or on condensed lists."""
        is_possible = gain in ("linear", "exp") and not (judged_only and gain == "exp")
        if self.name not in ("nDCG", _EXPONENTIAL, _CONDENSED) or not is_possible:
            raise UsageError(
                "only nDCG takes gain='exp' or judged_only=True, one of them; got "
                f"{self.name}(gain={gain!r}, judged_only={judged_only})"
            )
        if judged_only:
            return replace(self, name=_CONDENSED)
        return replace(self, name="nDCG" if gain == "linear" else _EXPONENTIAL)

    def __repr__(self) -> str:
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"

    @property
    def slug(self) -> str:
        """The name among the figures of a report: `ndcg@5`, `capped_recall@5`."""
        key = self._definition.key
        return key if self.cutoff is None else f"{key}@{self.cutoff}"

    @property
    def key(self) -> str:
        """The name in a row of a report: `ndcg_at_5`, `capped_recall_at_5`."""
        key = self._definition.key
        return key if self.cutoff is None else f"{key}_at_{self.cutoff}"

    @property
    def higher_is_better(self) -> bool:
        """True for every metric of rankings; figures of answers may differ."""
        return True

    def measure(self, ranked: GradedLists, ideal: GradedLists) -> Floats:
        """One value for each list. `ideal` must hold the same queries in the same order."""
        self.require_cutoff()
        return self._definition.formula(ranked, ideal, self.cutoff)

    @property
    def depth(self) -> int | None:
        """How far into a list the metric looks; None for all of it."""
        # A condensed list moves up: its first places may come from anywhere in the ranking.
        return None if self.name == _CONDENSED else self.cutoff

    def require_cutoff(self) -> None:
        """Raise `UsageError` if the metric needs a cut-off and has none."""
        if self.cutoff is None and self._definition.cutoff == "required":
            raise UsageError(f"{self.name} needs a cut-off, for example {self.name}@10")

    @property
    def _definition(self) -> _Definition:
        # A metric that was sent to another process is checked here, not when it is made.
        found = _find_definition(self.name)
        if found is None:
            raise _unknown(self.name)
        return found


nDCG = Metric("nDCG")
Recall = Metric("Recall")
CappedRecall = Metric("CappedRecall")
Precision = Metric("Precision")
MRR = Metric("MRR")
AP = Metric("AP")
Rprec = Metric("Rprec")
Hit = Metric("Hit")
Judged = Metric("Judged")
bpref = Metric("bpref")
infNDCG = Metric("infNDCG")


# As ir_measures has it (P@5), our reports (precision_at_5), trec_eval's output (P_5) and its option
# -m (P.5): people paste names from any of these.
_WRITTEN = re.compile(r"(?P<name>.+?)(?:(?:@|_at_|_|\.)(?P<cutoff>[0-9]{1,9}))?")
_NAMES: dict[str, str] = {
    spelling: name
    for name, definition in _DEFINITIONS.items()
    for spelling in (name.lower(), definition.key, *definition.aliases)
}


def parse_metric(text: str, *, also: str = "") -> Metric:
    """Read `nDCG@5`, `ndcg_at_5`, `R@10`, `P_5` and so on. `also`: what else may stand here."""
    if not isinstance(text, str):
        raise UsageError(
            f"a metric is a name such as 'ndcg@10' or an object such as nDCG @ 10, got {text!r}"
        )
    written = re.sub(r"[\s\"']", "", text.lower()).replace("-", "_")
    match = _WRITTEN.fullmatch(written)
    name = _NAMES.get(match["name"], match["name"]) if match else ""
    if match is None or _find_definition(name) is None:
        raise _unknown(text, also)
    metric = Metric(name, None if match["cutoff"] is None else int(match["cutoff"]))
    metric.require_cutoff()
    return metric


def _unknown(text: str, also: str = "") -> UsageError:
    name = re.split(r"@|_at_", text.strip().lower())[0]
    near = closest(name, _NAMES)
    hint = f". Did you mean {_NAMES[near]!r}?" if near else ""
    there_is = f"{', '.join(_DEFINITIONS)}; write NAME@K{also and f'; or {also}'}"
    return UsageError(f"unknown metric {text[:80]!r}; available: {there_is}{hint}")
