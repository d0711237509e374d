"""Every error that Assay raises on purpose.

    AssayError                    exit code 2
    ├── UsageError                an option, a name or an expression that cannot be understood
    ├── DataError                 a data set, judgments or run file is wrong; names file and line
    │   └── DownloadError         the data could not be fetched, or came damaged
    ├── SearchError               an index or a model is missing, damaged or made for something else
    ├── RunError                  a run folder cannot be read, resumed or written
    ├── GateError                 a gate that no system could pass
    └── TargetError               exit code 3: the agent under test could not be reached or loaded

A message says what was wrong, what was got and what to do about it. The command line prints the
message alone; a traceback means a bug in Assay.
"""

from pathlib import Path


class AssayError(Exception):
    """A mistake in the input or the surroundings, told in words for the person who can mend it."""

    exit_code = 2


class UsageError(AssayError):
    pass


class DataError(AssayError):
    """`file` and `line` lead the message, as compilers do, so that editors can jump there."""

    def __init__(self, message: str, *, file: Path | str | None = None, line: int | None = None):
        self.file = file
        self.line = line
        where = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(where + message)


class DownloadError(DataError):
    pass


class SearchError(AssayError):
    pass


class RunError(AssayError):
    pass


class GateError(AssayError):
    pass


class TargetError(AssayError):
    exit_code = 3
