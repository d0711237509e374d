"""What `assay ground-truth` says about the answers and nuggets that it wrote."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli.made_questions import spending_json
from assay.net.json import JsonObject

if TYPE_CHECKING:
    from assay.answers.nugget_file import QuestionNuggets
    from assay.labels.ground_truth.generation import GenerationResult
    from assay.labels.ground_truth.nugget_generation import NuggetResult
    from assay.llm.providers.provider import Spending


@dataclass(frozen=True, slots=True)
class AnswersSummary:
    """Reference answers, where they were written, and what the model cost."""

    out: Path
    provider: str
    made: "GenerationResult"
    spending: "Spending | None"

    def to_json(self) -> JsonObject:
        """What `--json` prints."""
        return {
            "out": str(self.out),
            "provider": self.provider,
            "written": self.made.written,
            "kept": self.made.kept,
            "left_out": dict(self.made.left_out),
            "cut": self.made.cut,
            **spending_json(self.spending),
        }

    def facts(self) -> Iterator[tuple[str, str]]:
        """What is printed for people."""
        from assay.report.numbers import count

        yield "provider", self.provider
        yield "written", count(self.made.written)
        yield "kept", count(self.made.kept)
        if self.made.left_out:
            yield "left out", count(len(self.made.left_out))


@dataclass(frozen=True, slots=True)
class NuggetsSummary:
    """Nuggets that were exported as a table, or imported from one."""

    out: Path
    questions: "Sequence[QuestionNuggets]"

    def counts(self) -> dict[str, int]:
        """Questions with nuggets, nuggets, and how many of them are vital."""
        nuggets = [nugget for question in self.questions for nugget in question.nuggets]
        return {
            "questions": sum(bool(each.nuggets) for each in self.questions),
            "nuggets": len(nuggets),
            "vital": sum(each.vital for each in nuggets),
        }

    def makers(self) -> dict[str, int]:
        """How many nuggets each kind of maker made."""
        made = [nugget.by.value for question in self.questions for nugget in question.nuggets]
        return {maker: made.count(maker) for maker in sorted(set(made))}

    def to_json(self) -> JsonObject:
        """What `--json` prints."""
        return {"out": str(self.out), **self.counts(), "by": self.makers()}

    def facts(self) -> Iterator[tuple[str, str]]:
        """What is printed for people."""
        from assay.report.numbers import count

        yield from ((name, count(number)) for name, number in self.counts().items())
        if makers := self.makers():
            yield "made by", ", ".join(f"{who} {count(n)}" for who, n in makers.items())


@dataclass(frozen=True, slots=True)
class DrawnNuggetsSummary(NuggetsSummary):
    """Nuggets that were drawn from documents."""

    provider: str
    made: "NuggetResult"
    spending: "Spending | None"

    def to_json(self) -> JsonObject:
        """What `--json` prints."""
        rejected = {each.name.lower(): n for each, n in self.made.rejected.items() if n}
        return {
            "out": str(self.out),
            "provider": self.provider,
            "drawn": self.made.extracted,
            "kept": self.made.kept,
            **self.counts(),
            "by": self.makers(),
            "left_out": dict(self.made.left_out),
            "rejected": rejected,
            **spending_json(self.spending),
        }

    def facts(self) -> Iterator[tuple[str, str]]:
        """What is printed for people."""
        from assay.report.numbers import count

        yield "provider", self.provider
        yield "drawn", count(self.made.extracted)
        yield "kept", count(self.made.kept)
        yield from NuggetsSummary.facts(self)
        if self.made.left_out:
            yield "left out", count(len(self.made.left_out))
        yield from (
            ("rejected", f"{count(n)}: {why}") for why, n in self.made.rejected.items() if n
        )
