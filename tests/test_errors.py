"""Every class of error has an id, which tests and scripts can rely on."""

from assay import errors
from assay.errors import AssayError, DataError, TargetLoading, UsageError
from assay.extras import MissingExtra
from assay.files import UnreadableFile


def test_the_id_of_an_error_follows_from_its_class() -> None:
    kinds = (UsageError, DataError, TargetLoading, MissingExtra, UnreadableFile)
    codes = [kind.code for kind in kinds]
    assert codes == ["usage", "data", "target-loading", "missing-extra", "unreadable-file"]


def test_no_two_errors_have_one_id() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    codes = [kind.code for kind in kinds if issubclass(kind, AssayError)]
    assert len(codes) == len(set(codes)) > 8
