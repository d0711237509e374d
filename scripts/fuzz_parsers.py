"""Coverage-guided fuzzing of the parsers, with atheris (libFuzzer).

    pip install atheris
    python scripts/fuzz_parsers.py [PARSER...] [-max_total_time=60] [options of libFuzzer]

It feeds the tests of `tests/fuzz/test_parsers.py`, whose inputs are its corpus: a parser returns a
value that keeps its promises, or raises one of our errors. The first byte of an input chooses the
parser. atheris is no dependency, since not every platform has a build of it: `make fuzz` uses it
where it is installed.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import atheris  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

with atheris.instrument_imports(include=["assay"]):
    from tests.fuzz import test_parsers as tests

Parser = tuple[Callable[[bytes], Any], Sequence[bytes | str]]


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _checked(test: Any, **fixed: Any) -> Callable[[bytes], Any]:
    """The test with an input in place of what Hypothesis would draw for its first argument."""
    inner = test.hypothesis.inner_test
    name, kind = next(iter(inner.__annotations__.items()))

    def check(content: bytes) -> Any:
        given: Any = content if kind is bytes else _text(content) if kind is str else [content]
        return inner(**{name: given}, **fixed)

    return check


PARSERS: dict[str, Parser] = {
    "answers": (_checked(tests.test_answers, mapping=None), tests.ANSWERS),
    "mapping": (
        lambda content: tests.test_answers.hypothesis.inner_test(
            answer=tests.ANSWERS[1], mapping=_text(content)
        ),
        tests.MAPPINGS,
    ),
    "a2a": (_checked(tests.test_results_of_a2a), tests.A2A_RESULTS),
    "contract": (_checked(tests.test_responses_of_the_contract), tests.RESPONSES),
    "sse": (
        _checked(tests.test_an_event_stream_means_the_same_however_it_is_cut, cuts=[3, 40, 41]),
        tests.STREAMS,
    ),
    "target": (_checked(tests.test_targets), tests.TARGETS),
    "address": (_checked(tests.test_no_address_is_too_odd_to_be_redacted), tests.TARGETS),
    "gate": (_checked(tests.test_gates), tests.GATES),
    "report": (_checked(tests.test_reports_of_others), (tests.REPORT,)),
}
# The readers of files by the names of these: qrels.tsv, questions.csv, ...
PARSERS |= {
    name: (partial(tests.check_file, name), corpus) for name, (_, corpus) in tests.FILES.items()
}


def main() -> None:
    """The command line."""
    named = [each for each in sys.argv[1:] if each in PARSERS]
    chosen = [PARSERS[each] for each in named or PARSERS]
    options = [each for each in sys.argv[1:] if each not in PARSERS]

    def one(content: bytes) -> None:
        if content:
            chosen[content[0] % len(chosen)][0](content[1:])

    with TemporaryDirectory(prefix="assay-corpus-") as seeds:
        for place, (_, inputs) in enumerate(chosen):
            for number, each in enumerate(inputs):
                content = each if isinstance(each, bytes) else each.encode()
                Path(seeds, f"{place}-{number}").write_bytes(bytes([place]) + content)
        atheris.Setup([sys.argv[0], "-max_len=4096", "-timeout=20", *options, seeds], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
