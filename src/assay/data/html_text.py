"""The title and the text of an HTML page."""

import re
from html.parser import HTMLParser

_HIDDEN = ("script", "style", "template", "head")
_BLOCK = re.compile(r"p|h[1-6]|li|tr|div|dt|dd|section|article|blockquote|pre|title")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.title: list[str] = []
        self.text: list[str] = []
        self._hidden = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _HIDDEN
        self._in_title = self._in_title or tag == "title"
        self.text.append("\n" if tag == "br" else " ")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN and self._hidden > 0
        self._in_title = self._in_title and tag != "title"
        self.text.append("\n" if _BLOCK.fullmatch(tag) else " ")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._hidden:
            self.text.append(" ".join(data.split("\n")))


def title_and_text(page: str) -> tuple[str, str]:
    """Title and text of an HTML page, with a line for each paragraph, heading, item and row."""
    parser = _Page()
    parser.feed(page)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.text).split("\n"))
    return " ".join("".join(parser.title).split()), "\n".join(filter(None, lines))
