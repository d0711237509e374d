"""`rbp`: rank-biased precision with persistence 0.8 (Moffat and Zobel 2008), as `rbp@10`."""

PERSISTENCE = 0.8


def rank_biased_precision(grades, ideal, cutoff):
    """`grades` are those of the ranking, `ideal` all of the query, best first; `cutoff` or None."""
    found = (PERSISTENCE**rank for rank, grade in enumerate(grades) if grade > 0)
    return (1 - PERSISTENCE) * sum(found)
