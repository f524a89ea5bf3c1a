"""Which tables compare results with a paper, by the name a configuration gives them."""

from collections.abc import Iterable

from marginalia.errors import InputError, unknown_name

CARDS = {
    "dd_ssp": {
        "comparison_dd_ssp_claims": "marginalia.reporting.dd_ssp:claims",
        "dd_ssp_verdicts": "marginalia.reporting.dd_ssp:verdicts",
        "dd_ssp_base": "marginalia.reporting.dd_ssp:base",
        "dd_ssp_run_times": "marginalia.reporting.dd_ssp:run_times",
        "dd_ssp_split": "marginalia.reporting.dd_ssp:splits",
    },
}


def tables_of(cards: Iterable[str]) -> dict[str, str]:
    """Return the tables of some cards: name to the import path of a function of records.

    Raises
    ------
    InputError
        Unknown card.
    """
    if isinstance(cards, str):
        raise InputError(f"config: comparisons: expected a list, got '{cards}'")
    tables: dict[str, str] = {}
    for card in cards:
        if card not in CARDS:
            raise unknown_name("comparison", card, CARDS)
        tables |= CARDS[card]
    return tables
