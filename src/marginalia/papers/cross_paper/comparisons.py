"""The tables and figures of the sweep across the papers."""

from marginalia.papers.card import Comparison, lazily

WING = "marginalia.papers.cross_paper"
RANKING = Comparison(
    "cross_paper_ranking",
    "cross_paper",
    lazily(f"{WING}.ranking", "ranking"),
    title="Ranking over data sets and budgets",
    figure=lazily(f"{WING}.ranking_figure", "figure"),
    caption=lazily(f"{WING}.ranking_figure", "caption"),
)
PAIRS = Comparison("cross_paper_pairs", "cross_paper", lazily(f"{WING}.ranking", "pairs"))
FRONTIER = Comparison(
    "cross_paper_frontier",
    "cross_paper",
    lazily(f"{WING}.frontier", "frontier"),
    title="Utility against CPU seconds",
    figure=lazily(f"{WING}.frontier_figure", "figure"),
    caption=lazily(f"{WING}.frontier_figure", "caption"),
)
