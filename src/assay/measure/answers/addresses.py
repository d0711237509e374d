"""Links and mail addresses of an answer: known from what was shown, or invented."""

import re
from collections.abc import Iterable
from urllib.parse import unquote

from assay.data.dataset import Document
from assay.measure.answers.answer_view import AnswerView
from assay.text import words

_ADDRESS = re.compile(
    r"(?:https?://|\bwww\.)[^\s()<>\[\]\"'`]{3,200}|\b[\w.+-]{1,64}@[\w-]{1,60}\.[\w.-]{2,60}"
)
_TITLED = re.compile(r"\[([^\[\]\n]{1,200})\]\([^()\s]{1,500}\)")  # "[Prices](https://host/x7)"


def foreign_address(view: AnswerView) -> str:
    """A link or mail address of the answer that nothing shown has, and no id or title of it; not
    where the text of the link is the title of a document that was shown.
    """
    seen = [view.documents[each] for each in view.case.seen_ids if each in view.documents]
    known = [*view.shown, view.case.question, view.case.reference.answer or ""]
    known += [str(value) for each in seen for value in each.metadata.values()]
    titles = [set(words(each.title)) for each in seen if each.title]
    answer = _TITLED.sub(
        lambda link: "" if set(words(link[1])) in titles else link[0], view.case.answer or ""
    )
    for match in _ADDRESS.finditer(answer):
        if not _is_known(match[0], known, seen):
            return match[0].rstrip(".,;:!?*_")
    return ""


_SCHEME = re.compile(r"^(?:https?://|mailto:)?(?:www\.)?")


def _is_known(address: str, texts: Iterable[str], documents: Iterable[Document]) -> bool:
    """Whether a text has a link or mail address in any spelling, or it names a document: by all
    words of a title, or by an id that is a whole segment of its path or value of its query.
    """
    plain = _plain_address(address)
    said = set(words(plain))
    for each in documents:
        wanted = re.escape(_plain_address(each.id))
        whole = rf"(?:^|[/?&=#]){wanted}(?:\.(?:html?|md|pdf|php|txt|json))?(?:[/?&#]|$)"
        if (each.title and set(words(each.title)) <= said) or re.search(whole, plain):
            return True
    held = re.compile(rf"(?<![\w.+-])(?:www\.)?{re.escape(plain)}(?!\w)")
    return any(held.search(unquote(text).lower()) for text in texts)


def _plain_address(address: str) -> str:
    """Without scheme, "www.", upper case and what stands around."""
    return _SCHEME.sub("", unquote(address).lower().strip("`*_")).rstrip(".,;:!?*_`/")
