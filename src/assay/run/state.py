"""The states of a run, as reports record them and lists show them."""

from enum import StrEnum


class RunState(StrEnum):
    """How far a run is, or how it ended.

    A file may hold a state of another version of Assay: what is read from one stays a `str`, which
    equals a member if it is known.
    """

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    TARGET_LOST = "target lost"
    NOT_JUDGED = "not judged"  # Every question is answered; the judge did not finish
    UNFINISHED = "unfinished"  # Without a report, and no process goes on: it was killed
    DAMAGED = "damaged"  # A file of the run cannot be read
