"""The one kind of console that anything is shown on: what it renders is cleaned on the way out."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from assay.net.redact import printable


class SafeConsole(Console):
    """Rich passes ESC on as it comes. Its own colours are styles of a segment, not text in it."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
