"""What the processor makes of 8-bit products decides how they are computed."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

from assay.search.integer_graph import session_settings


class Saturating:
    """As processors without VNNI add: two products at a time, in 16 bits."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def run(self, _names: object, feed: dict[str, Any]) -> list[Any]:
        pairs = feed["values"].shape[1] // 2
        return [np.full((1, 16), pairs * 32767, np.int32)]


def test_the_exact_way_is_taken_where_products_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", Saturating)
    assert session_settings() == {"session.x64quantprecision": "1"}
