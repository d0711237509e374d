"""Whether a judge can be believed: one that is mute, contradicts itself or guesses is refused."""

import math
from collections.abc import Sequence

from assay.answers.judge import Judgment

_FEWEST_BY_CHANCE = 4.0


def unreliable(judgments: Sequence[Judgment], max_flips: float) -> str | None:
    """Why these judgments are worth nothing, in words; None if nothing speaks against them.

    A judge is refused that gives no verdict about most answers, that contradicts itself about more
    than `max_flips` of them, or whose votes in the two orders agree no more than those of two coins
    that say TRUE as often as it does.
    """
    asked = [each for each in judgments if not each.by_rule]
    doubt = refuse_inconsistent(
        "answers",
        mute=("gave no verdict for", [x.verdict is None and not x.flipped for x in asked]),
        flipped=("said both TRUE and FALSE about", [x.flipped for x in asked if len(x.votes) > 1]),
        changed="their order or the wording of the question",
        max_flips=max_flips,
    )
    if doubt is None and _like_coins(asked):
        return (
            f"the judge answers like a coin: its verdicts in the two orders agree about "
            f"{len(asked)} answers no more often than chance would; choose another model"
        )
    return doubt


def refuse_inconsistent(
    things: str,
    *,
    mute: tuple[str, Sequence[bool]],
    flipped: tuple[str, Sequence[bool]],
    changed: str = "their order",
    max_flips: float,
) -> str | None:
    """Why a judge is refused: it is mute about most things, or contradicts itself too often.

    `mute` and `flipped` each have what the judge did, in words, and about which things it did so.
    """
    verb, found = mute
    if 2 * sum(found) > len(found):
        said = f"the judge {verb} {sum(found)} of {len(found)} {things}; choose another model, or"
        return f"{said} allow it more tokens: see docs/answers.md"
    verb, found = flipped
    rate = sum(found) / len(found) if found else 0.0
    if rate > max_flips:
        said = f"the judge {verb} {sum(found)} of {len(found)} {things}"
        share = f"({100 * rate:.0f}%) when {changed} changed"
        limit = f"at most {100 * max_flips:g}% are accepted (--judge-max-flips)"
        return f"{said} {share}; {limit}; choose another model"
    return None


def _like_coins(asked: Sequence[Judgment]) -> bool:
    """Whether the orders disagree as often as coins with the judge's shares of TRUE would.

    Decided only where chance alone would make them disagree a few times: one slip among
    verdicts that are nearly all the same proves nothing.
    """
    pairs = [each.verdicts for each in asked if each.both_orders]
    decided = [pair for pair in pairs if None not in pair]
    if not decided:
        return False
    first = sum(pair[0] is True for pair in decided) / len(decided)
    second = sum(pair[1] is True for pair in decided) / len(decided)
    by_chance = first * (1 - second) + (1 - first) * second
    expected = by_chance * len(decided)
    seen = sum(pair[0] is not pair[1] for pair in decided)
    # Within two standard deviations of what chance gives.
    spread = math.sqrt(expected * (1 - by_chance))
    return expected >= _FEWEST_BY_CHANCE and seen > expected - 2 * spread
