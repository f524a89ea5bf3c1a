"""Which tables compare results with a paper, or rank methods, by the name a configuration gives them."""

from collections.abc import Container, Iterable

from marginalia.errors import InputError, unknown_name

CARDS = {
    "dd_ssp": {
        "comparison_dd_ssp_claims": "marginalia.reporting.dd_ssp:claims",
        "dd_ssp_verdicts": "marginalia.reporting.dd_ssp:verdicts",
        "dd_ssp_base": "marginalia.reporting.dd_ssp:base",
        "dd_ssp_run_times": "marginalia.reporting.dd_ssp:run_times",
        "dd_ssp_split": "marginalia.reporting.dd_ssp:splits",
    },
    "cross_paper": {
        "cross_paper_ranking": "marginalia.reporting.ranking:ranking",
        "cross_paper_pairs": "marginalia.reporting.ranking:pairs",
        "cross_paper_frontier": "marginalia.reporting.frontier:frontier",
    },
}
# Tables that also need a study's table.
NEEDS = {"dd_ssp_verdicts": "dd_ssp_f4"}
# Tables with a figure of the same name: a module with TITLE, figure(table) and caption(table).
FIGURES = {
    "cross_paper_ranking": "marginalia.reporting.ranking_figure",
    "cross_paper_frontier": "marginalia.reporting.frontier_figure",
}


def tables_of(cards: Iterable[str]) -> dict[str, str]:
    """Return the tables of some cards: name to the import path of a function of records (and of `studies_of`).

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


def figures_of(cards: Iterable[str]) -> dict[str, str]:
    """Return the tables of some cards that have a figure: name to the import path of the module that draws it."""
    return {name: FIGURES[name] for name in tables_of(cards) if name in FIGURES}


def studies_of(cards: Iterable[str], configured: Container[str]) -> dict[str, str]:
    """Return the tables of some cards that also need a study's table: name to the study, where it is configured."""
    return {name: NEEDS[name] for name in tables_of(cards) if NEEDS.get(name) in configured}
