"""Faithfulness by a model of the user's: any three-class NLI cross-encoder, ONNX or PyTorch.

    model = open_entailment("onnx:models/nli")
    support(model, "A locker costs 5 euros.", ["A locker costs 3 euros. It is blue."])  # below 0.5

A sentence is read against the single sentences, the windows of three sentences and the one source
that share most words with it, since plain maxima over sentences are fooled by long sources. What
is supported is told from what is unrelated by shared words (`assay.answers.faithfulness`); the
model tells it from what is contradicted.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from assay.answers.case import AnswerCase
from assay.answers.checks import Check
from assay.answers.values import content
from assay.errors import SearchError, UsageError
from assay.files import read_text_file
from assay.metrics.formulas import Floats
from assay.net.json import parse_json
from assay.progress import Progress, silent
from assay.text import sentences

FALSE_ALARMS = 0.05  # of the run's own source sentences, by the fitted threshold

_CLASSES = ("entail", "neutral", "contra")
_OTHER_WORDS = {"support": "entail", "refut": "contra"}
_SINGLES, _WINDOWS, _WINDOW = 3, 2, 3
# Weights of windows, from the share of the claim's words; chosen on SummEdits, QAGS and `notes`.
_SHARPNESS = 6.0
_MAX_TOKENS = 320
_MAX_CLAIM = 600
_MAX_CLAIMS = 50
_FITTED = 60
_MIN_FITTED = 20


class OnnxEntailment:
    """A folder with one `.onnx` file and `tokenizer.json`; `config.json` names the classes."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        from assay.search.onnx_embedding import open_session

        graphs = sorted(folder.glob("*.onnx"))
        tokenizer = folder / "tokenizer.json"
        if len(graphs) != 1 or not tokenizer.is_file():
            raise UsageError(f"{folder} needs one .onnx file and tokenizer.json (--faithfulness)")
        self.name = f"onnx:{graphs[0].stem}"
        self._session = open_session(self.name, graphs[0])
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MAX_TOKENS, strategy="only_first")
        self._inputs = [each.name for each in self._session.get_inputs()]
        config = folder / "config.json"
        labels = parse_json(read_text_file(config))["id2label"] if config.is_file() else {}
        self._order = _order(labels, self.name)

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """A row for each (premise, claim): supported, neither, contradicted; each sums to 1."""
        rows = []
        # One after the other: the lengths differ, and padding costs more than a call.
        for premise, claim in pairs:
            encoded = self._tokenizer.encode(premise, claim[:_MAX_CLAIM])
            known = {
                "input_ids": encoded.ids,
                "attention_mask": encoded.attention_mask,
                "token_type_ids": encoded.type_ids,
            }
            feed = {name: np.array([known[name]], np.int64) for name in self._inputs}
            logits = np.asarray(self._session.run(None, feed)[0], np.float64)[0]
            if logits.shape != (3,):
                found = logits.size
                raise SearchError(f"the model {self.name} has {found} classes; it needs three")
            powers = np.exp(logits - logits.max())
            rows.append((powers / powers.sum())[self._order])
        return np.array(rows, dtype=np.float64).reshape(-1, 3)


class TorchEntailment:
    """A cross-encoder of sentence-transformers, by its name or folder."""

    def __init__(self, name: str) -> None:
        from sentence_transformers import CrossEncoder

        self.name = f"st:{name}"
        self._model: Any = CrossEncoder(name, max_length=_MAX_TOKENS)
        self._order = _order(self._model.config.id2label, self.name)

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """The same."""
        found = self._model.predict(list(pairs), apply_softmax=True, show_progress_bar=False)
        return np.asarray(found, np.float64)[:, self._order]


EntailmentModel = OnnxEntailment | TorchEntailment


@lru_cache(maxsize=1)
def open_entailment(spec: str) -> EntailmentModel:
    """The model that `onnx:DIR` or `st:NAME|DIR` names. Raises `UsageError`."""
    kind, _, rest = spec.partition(":")
    if kind == "onnx" and rest:
        return OnnxEntailment(Path(rest).expanduser())
    if kind == "st" and rest:
        return TorchEntailment(rest)
    raise UsageError(f"--faithfulness {spec!r} is not a model; use onnx:DIR or st:NAME|DIR")


def _order(labels: Mapping[Any, str], name: str) -> list[int]:
    """The places of supported, neither and contradicted; in this order if nothing is said."""
    if not labels:
        return [0, 1, 2]
    words = [str(labels[key]).lower() for key in sorted(labels, key=int)]
    kinds = [
        next((kind for start, kind in _OTHER_WORDS.items() if word.startswith(start)), word)
        for word in words
    ]
    places = [[n for n, kind in enumerate(kinds) if kind.startswith(each)] for each in _CLASSES]
    if len(words) != 3 or not all(places):
        raise UsageError(
            f"{name} has the classes {', '.join(words)}; it needs entailment, neutral, "
            "contradiction (--faithfulness)"
        )
    return [first for first, *_ in places]


def support(model: EntailmentModel, claim: str, sources: Sequence[str]) -> float:
    """From 0, contradicted, to 1, supported; 0 if there is nothing to read the claim against."""
    if not sources:
        return 0.0
    views = [
        _nearest(claim, texts, number)
        for texts, number in zip(_windows(tuple(sources)), (_SINGLES, _WINDOWS, 1), strict=True)
    ]
    pairs = [(text, claim) for view in views for text, _ in view]
    found = np.log(np.maximum(model.probabilities(pairs), 1e-9))
    odds = iter(found[:, 0] - found[:, 2])
    score = sum(weight * next(odds) for view in views for _, weight in view) / len(views)
    return float(1 / (1 + math.exp(-score)))


@lru_cache(maxsize=8)
def _windows(texts: tuple[str, ...]) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Every sentence, every three that follow each other, and the whole texts."""
    said = [sentences(text) or [text] for text in texts]
    windows = [
        " ".join(each[start : start + _WINDOW])
        for each in said
        for start in range(max(1, len(each) - _WINDOW + 1))
    ]
    return [sentence for each in said for sentence in each], windows, texts


def _nearest(claim: str, texts: Sequence[str], number: int) -> list[tuple[str, float]]:
    """The texts that share most words with the claim, with weights that sum to 1."""
    said = content(claim)
    shares = [len(said & content(text)) / max(1, len(said)) for text in texts]
    best = sorted(range(len(texts)), key=lambda place: -shares[place])[:number]
    weights = [math.exp(_SHARPNESS * shares[place]) for place in best]
    return [(texts[place], w / sum(weights)) for place, w in zip(best, weights, strict=True)]


@dataclass(frozen=True)
class ModelFaithfulness:
    """What the model says about the answers of a run, by query id.

    `values` are the mean supports of the claims. `flagged` has a claim below `threshold`, which is
    None if the sources have too few sentences to fit it. `false_rate` is the share of answers that
    would have a flagged claim by chance.
    """

    model: str
    values: Mapping[str, float]
    flagged: Mapping[str, str]
    threshold: float | None = None
    false_rate: float = 0.0

    @property
    def words(self) -> str:
        """For a report."""
        if self.threshold is None:
            return f"{self.model}; too few source sentences to flag answers by"
        return (
            f"{self.model}; flagged below {self.threshold:.2f}, as {FALSE_ALARMS:.0%} of the "
            "sources' own sentences would be"
        )


def measure_support(
    model: EntailmentModel, cases: Sequence[AnswerCase], progress: Progress = silent
) -> ModelFaithfulness:
    """Read every claim of every answer against what was shown."""
    threshold = fit_threshold(model, [[*case.shown.values()] for case in cases])
    values: dict[str, float] = {}
    flagged: dict[str, str] = {}
    numbers: list[int] = []
    for done, case in enumerate(cases, start=1):
        claims = case.claims[:_MAX_CLAIMS] if case.attempted else []
        sources = list(case.shown.values())
        found = [support(model, claim, sources) for claim in claims]
        if case.answerable and sources:
            values[case.query_id] = sum(found) / len(found) if found else 0.0
        numbers += [len(found)] if found else []
        low = min(zip(found, claims, strict=True), default=None)
        if low and sources and threshold is not None and low[0] < threshold:
            flagged[case.query_id] = low[1]
        progress("reading answers with the model", done, len(cases))
    mean = sum(numbers) / len(numbers) if numbers else 1.0
    return ModelFaithfulness(model.name, values, flagged, threshold, 1 - (1 - FALSE_ALARMS) ** mean)


def fit_threshold(model: EntailmentModel, shown: Iterable[Sequence[str]]) -> float | None:
    """The support that all but `FALSE_ALARMS` of the sources' own sentences have, by their own
    source and by the nearest other one; None if there are fewer than `_MIN_FITTED` sentences.
    """
    texts = list(dict.fromkeys(text for sources in shown for text in sources))
    known = [(text, said) for text in texts for said in sentences(text) if len(content(said)) > 2]
    step = max(1, len(known) // _FITTED)
    drawn = known[::step][:_FITTED]
    if len(drawn) < _MIN_FITTED or len(texts) < 2:
        return None
    own = [support(model, said, [text]) for text, said in drawn]
    others = [
        support(model, said, [text for text, _ in _nearest(said, rest, 1)])
        for home, said in drawn
        for rest in [[text for text in texts if text != home and said not in text]]
        if rest
    ]
    return float(min(np.quantile(own, FALSE_ALARMS), np.quantile(others, FALSE_ALARMS)))


def contradicted_check(found: ModelFaithfulness) -> Check:
    """A finding about the answers with a flagged claim."""
    return Check(
        "contradicted",
        "have a sentence that the model of --faithfulness finds contradicted by what was shown",
        lambda case: found.flagged.get(case.query_id),
        false_rate=found.false_rate,
        severity="unsafe",
        covers=lambda case: case.attempted,
    )
