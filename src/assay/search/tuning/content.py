"""What a query shares with the texts themselves, before any judgment is looked at."""

from dataclasses import dataclass

import numpy as np

from assay.search.tuning.arrays import Floats, dense, min_max
from assay.search.tuning.reading import Corpus, Questions

LEXICAL_SHARE = 0.3


@dataclass(frozen=True)
class Content:
    """Scores, queries by documents."""

    body: Floats
    title: Floats
    meaning: Floats
    hybrid: Floats
    """The zero-shot ranking that a tuned one has to beat."""


def compare_content(corpus: Corpus, questions: Questions) -> Content:
    body, title = np.split(dense(questions.stems @ corpus.words), 2, axis=1)
    meaning = np.asarray(questions.vectors @ corpus.vectors.T, np.float32)
    return Content(
        body=body,
        title=title,
        meaning=meaning,
        hybrid=LEXICAL_SHARE * min_max(body) + (1 - LEXICAL_SHARE) * min_max(meaning),
    )
