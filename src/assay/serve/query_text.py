"""A query has to hold something that can be searched for: control characters alone are nothing.

Said before the search, so that the caller hears which field is empty and not that a search failed.
"""

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from assay.search.plain_text import plain


def _readable(query: str) -> str:
    if not plain(query).strip():
        raise PydanticCustomError("string_too_short", "String should have at least 1 character")
    return query


Readable = AfterValidator(_readable)
