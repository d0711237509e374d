"""The trained track: a ranking that learns from the judged queries of a data set."""

from assay.search.tuning.collection import TuningData, fingerprint_of
from assay.search.tuning.file import load, save
from assay.search.tuning.fit import fit
from assay.search.tuning.model import TunedRanker

__all__ = ["TunedRanker", "TuningData", "fingerprint_of", "fit", "load", "save"]
