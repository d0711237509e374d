"""One answer with all that it is checked against: contexts, citations, question, reference."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from assay.answers.abstention import abstained, declined
from assay.answers.answer_metrics import AnswerCase, Documents
from assay.answers.assertion import Assertion, is_negative
from assay.answers.contradiction.rules import MAX_PAIRS, Contradiction
from assay.answers.contradiction.sentence import without_yes_or_no
from assay.answers.diagnosis import NOT_TRIED, Counterfactuals
from assay.answers.framing import (
    PICTURES,
    bare_text,
    content_stems,
    statements,
    without_conversions,
)
from assay.answers.lexical import (
    contains_any,
    fact_occurrences,
    held_words,
    is_supported,
    stated_facts,
)
from assay.answers.quantities import is_converted, negations_of, numbers
from assay.answers.wrong_values import WrongValue, find_wrong_value
from assay.data.dataset import Fact
from assay.text import detect_language, normalize, sentences, stems, strip_controls, words

_NAME = re.compile(rf"(?<=[^\s.!?:\"'“({PICTURES}] )[\"'“(]?([^\W\d_a-zà-ÿ][\w'’-]+)")
_NEAR = 0.7
_QUOTED = 100


@dataclass(frozen=True)
class AnswerView:
    """An answer with its verdict; `correct` is None where nobody knows.

    `others` says how the question went in other contexts, `contradicted` whether a judge found a
    fact denied, `contradictions` what the sources contradict.
    """

    case: AnswerCase
    documents: Documents
    correct: bool | None = None
    contradicted: bool = False
    others: Counterfactuals = NOT_TRIED
    contradictions: Sequence[Contradiction] = ()

    @cached_property
    def text(self) -> str:
        """The answer without citation markers and emphasis; empty if there is none."""
        return bare_text(self.case.answer or "").strip()

    @cached_property
    def declined(self) -> bool:
        """Whether the agent answered that it has no answer."""
        answer = self.case.answer
        if answer is None or self.case.answerable:
            return answer is not None and abstained(answer)
        return declined(answer, self.case.question)

    @property
    def attempted(self) -> bool:
        """Whether there is an answer that does not decline."""
        return self.case.answer is not None and not self.declined

    @cached_property
    def sentences(self) -> list[str]:
        """The sentences that say something of the subject: no courtesy."""
        return [each for each in statements(self.case.answer or "") if stems(each)]

    @cached_property
    def shown(self) -> list[str]:
        """The texts that the model was shown, as far as they are known."""
        return [text for _, text in self.passages]

    @cached_property
    def passages(self) -> list[tuple[str, str]]:
        """The same with the id of each document."""
        return [(each.doc_id, each.text) for each in self.case.contexts] or [
            (each, self.documents[each].full_text)
            for each in self.case.retrieved
            if each in self.documents
        ]

    @cached_property
    def shown_stems(self) -> frozenset[str]:
        """The words of all that was shown, of titles and of the question."""
        return held_words([self.case.question, *self._titles, *self.shown])

    @cached_property
    def _titles(self) -> list[str]:
        """An answer may name its source where the passages themselves have no title."""
        seen = (self.documents.get(each) for each in self.case.seen_ids)
        return [each.title for each in seen if each is not None]

    @cached_property
    def reference_stems(self) -> frozenset[str]:
        """The words of the reference answer."""
        return frozenset(stems(self.case.reference.answer or ""))

    @property
    def evidence(self) -> bool:
        """Whether every needed document was shown."""
        return bool(self.case.needed) and self.case.needed <= set(self.case.seen_ids)

    @cached_property
    def shows_a_fact(self) -> bool:
        """Whether what was shown holds any of the key facts."""
        facts = self.case.reference.facts
        return any(contains_any(text, fact.accept) for text in self.shown for fact in facts)

    @cached_property
    def unstated(self) -> list[Fact]:
        """The key facts that the answer does not state."""
        stated = stated_facts(self.text, self.case.reference.facts)
        return [fact for fact in self.case.reference.facts if fact not in stated]

    @property
    def stated(self) -> int:
        """How many key facts the answer states."""
        return len(self.case.reference.facts) - len(self.unstated)

    @cached_property
    def occurrences(self) -> set[Assertion]:
        """Everything that the answer does with the key facts; options that are all of them are
        a list.
        """
        facts = self.case.reference.facts
        found = [fact_occurrences(self.text, fact) for fact in facts]
        listed = not self.unstated and {Assertion.OPTION}
        return set[Assertion]().union(*(each for each in found if each != listed))

    @cached_property
    def wrong_value(self) -> WrongValue | None:
        """What a wrong answer has in the place of an expected value."""
        case = self.case
        return find_wrong_value(
            self.text,
            case.question,
            case.reference.answer or "",
            self.unstated,
            [text for doc_id, text in self.passages if doc_id in case.needed],
            [text for doc_id, text in self.passages if doc_id not in case.needed],
        )

    @cached_property
    def unsupported(self) -> list[str]:
        """The sentences that nothing shown supports, and that are not in the reference either."""
        return [each for each in self.sentences if not self._is_supported(each)]

    def _is_supported(self, sentence: str) -> bool:
        said = content_stems(sentence)
        if is_supported(said, self.shown_stems) or is_supported(said, self.reference_stems):
            return True
        # In other words, but it says what was expected.
        facts = self.case.reference.facts
        known = {*self.foreign_numbers}.isdisjoint(numbers(sentence))
        return known and bool(stated_facts(sentence, facts))

    def is_foreign(self, sentence: str) -> bool:
        """Whether less than half of a sentence's words, numbers left out, were shown or asked."""
        said = frozenset(word for word in content_stems(sentence) if not word[0].isdigit())
        return not is_supported(said, self.shown_stems | self.reference_stems)

    @cached_property
    def foreign_numbers(self) -> set[str]:
        """Numbers of the answer that are neither shown nor asked nor expected."""
        known = self._known(numbers)
        # By sentences, which are without the numbers of a list.
        return {
            each
            for said in map(without_conversions, sentences(self.text))
            for found in [numbers(said)]
            for each in found - known
            if not is_converted(each, found & known, said, self._known_texts)
        }

    @cached_property
    def foreign_names(self) -> set[str]:
        """Capitalized words inside sentences that are neither shown nor asked nor expected."""
        names = {normalize(name) for each in self.sentences for name in _NAME.findall(each)}
        known = self._known(words) if names else set()
        return {name for name in names if not set(words(name)) <= known}

    def _known(self, read: Callable[[str], Iterable[str]]) -> set[str]:
        return set[str]().union(*(_read_once(read, each) for each in self._known_texts))

    @property
    def _known_texts(self) -> list[str]:
        return [*self.shown, *self._titles, self.case.question, self.case.reference.answer or ""]

    @cached_property
    def reverses_its_source(self) -> bool:
        """Whether a sentence says nearly what a source says, the one with a negation and the
        other without.
        """
        sources = [each for text in self.shown for each in sentences(text)]
        sources = sources[: MAX_PAIRS // max(1, len(self.sentences))]
        negations = negations_of(detect_language([self.text, *self.shown[:3]]))
        pairs = [(frozenset(stems(each)), _negates(each, negations)) for each in sources]
        return any(_reverses(each, pairs, negations) for each in self.sentences)


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """A check of one answer; `words` go on after "13 of 15 answers"."""

    kind: str
    words: str
    covers: Callable[[AnswerView], bool]
    holds: Callable[[AnswerView], bool | str]
    """Whether it holds; or the text that it found, of which the words quote the first."""
    share: float = 0.1
    what: str = "answers"
    fewest: int = 2
    detail: Callable[[Sequence[AnswerView]], str] | None = None
    """What the words end with, from the answers it holds for: may hold text of a run."""
    explained_by: tuple[str, ...] = ()
    """Kinds that say the same in a more telling way, where they are about most of these answers."""


def in_quotes(text: str) -> str:
    """A text in quotes, on one line and not too long."""
    line = strip_controls(" ".join(text.split()))
    return f'"{line}"' if len(line) <= _QUOTED else f'"{line[: _QUOTED - 1]}…"'


def example(quote: Callable[[AnswerView], str]) -> Callable[[Sequence[AnswerView]], str]:
    """A `detail` that quotes the first answer of which there is something to quote."""
    return lambda hit: for_example(map(quote, hit))


def for_example(texts: Iterable[str]) -> str:
    """The first of the texts that is not empty, in the words of a finding."""
    found = next((text for each in texts if (text := each.strip())), "")
    return f", for example {in_quotes(found)}" if found else ""


def _negates(sentence: str, negations: frozenset[str]) -> bool:
    if negations:
        return not negations.isdisjoint(words(sentence))
    plain = normalize(without_yes_or_no(sentence))
    return is_negative(plain.partition(" except ")[0])  # which reverses nothing


def _reverses(
    sentence: str, sources: Sequence[tuple[frozenset[str], bool]], negations: frozenset[str]
) -> bool:
    said = frozenset(stems(sentence)) - negations
    if len(said) < 4:
        return False
    near = [negative for held, negative in sources if len(said & held) >= _NEAR * len(said)]
    return bool(near) and _negates(sentence, negations) not in near


@lru_cache(maxsize=256)
def _read_once(read: Callable[[str], Iterable[str]], text: str) -> frozenset[str]:
    """What is read from a document, which many answers were shown."""
    return frozenset(read(text))
