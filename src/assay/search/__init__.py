"""The reference retriever."""

from typing import Literal, get_args

Mode = Literal["bm25", "dense", "hybrid", "tuned"]
# Here, where the names cost nothing to import: help texts list them
MODES: tuple[Mode, ...] = get_args(Mode)
