"""The modes of the reference retriever; quick to import, since help texts name them."""

from typing import Literal, get_args

Mode = Literal["bm25", "dense", "hybrid", "tuned"]
MODES: tuple[Mode, ...] = get_args(Mode)

ZERO_SHOT_MODES: tuple[Mode, ...] = tuple(mode for mode in MODES if mode != "tuned")
"""Those that need no training."""
