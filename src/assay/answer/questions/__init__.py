"""Questions made from documents: known items, gaps, comparisons, dates, hops, and none at all."""
