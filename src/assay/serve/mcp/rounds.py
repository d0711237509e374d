"""What a call has found, kept while its client is asked: the second round does not search again."""

import uuid
from collections import OrderedDict
from collections.abc import Sequence

from assay.serve.retrieval import Hit

_MOST = 256


class KeptHits:
    """Under a name that goes to the client and back, sealed by the SDK and bound to the call.

    A client that never comes back leaves its hits here until newer ones push them out; one whose
    hits were pushed out is searched for again.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, Sequence[Hit]] = OrderedDict()

    def keep(self, hits: Sequence[Hit]) -> str:
        name = uuid.uuid4().hex
        self._kept[name] = hits
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return name

    def take(self, name: str | None) -> Sequence[Hit] | None:
        return None if name is None else self._kept.pop(name, None)
