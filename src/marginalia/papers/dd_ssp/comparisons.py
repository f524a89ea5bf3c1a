"""The tables of the DD-SSP block that are made from the records of its sweep."""

from marginalia.papers.card import Comparison, lazily


def _comparison(name: str, function: str, needs: str = "") -> Comparison:
    return Comparison(name, "dd_ssp", lazily("marginalia.papers.dd_ssp.claims", function), needs)


CLAIMS = _comparison("comparison_dd_ssp_claims", "claims")
VERDICTS = _comparison("dd_ssp_verdicts", "verdicts", needs="dd_ssp_f4")
BASE = _comparison("dd_ssp_base", "base")
RUN_TIMES = _comparison("dd_ssp_run_times", "run_times")
SPLIT = _comparison("dd_ssp_split", "splits")
