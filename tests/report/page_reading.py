"""A page as a browser takes it in, for tests that do not start one."""

from html.parser import HTMLParser

_VOID = {"meta", "link", "br", "input", "img", "hr"}


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.style = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.style += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def tags(self, name: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag == name]


def read_page(html: str) -> Page:
    page = Page()
    page.feed(html.replace("<wbr>", ""))  # where a name may break is no part of it
    page.close()
    assert not page._open, f"never closed: {page._open}"
    return page


def assert_harmless(page: Page) -> None:
    assert not {tag for tag, _ in page.elements} & {"script", "iframe", "object", "link", "base"}
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style", tag
            if name in ("src", "href", "action", "data", "poster", "srcset"):
                assert value.startswith(("#", "/")), (tag, name, value)
    assert "url(" not in page.style
    assert "@import" not in page.style
