"""Card kappa of the reduced-space paper: which measure to draw the points of the reduced space from."""

from __future__ import annotations

from collections.abc import Iterator

from marginalia.papers.card import Card, Figure, Folders, Record, Settings, Tables, part_values
from marginalia.papers.reduced_space.runs import SETS, one_part_a_split, split
from marginalia.papers.rows import as_frame
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import laplace
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import curve, drawing, look, rows_where
from marginalia.sweep.seeds import seed_sequence

CARD = "reduced_space_kappa"


@as_frame
def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield κ and the noise-free optimum of every measure built from one release."""
    from marginalia.synthesis.reduced_space import sampling
    from marginalia.synthesis.reduced_space.column_generation import fit_columns
    from marginalia.synthesis.reduced_space.families import Family
    from marginalia.synthesis.reduced_space.guarantees import laplace_scale
    from marginalia.synthesis.reduced_space.spaces import Pool

    name, number = part_values(part)
    trial = int(number)
    train, _ = split(name, trial, root_seed, data)
    n = train.n_rows
    family = Family("parities", train.domain.sizes, 2)
    randomness = Randomness(seed_sequence(root_seed, CARD, name, trial))
    rng = randomness.generator
    scale = laplace_scale(family, settings["epsilon"], relation=Relation.REPLACE_ONE, calibration="tight")
    sums = family.sums(train.codes)
    sensitivity = family.l1_sensitivity(Relation.REPLACE_ONE)
    noisy = laplace(sums, sensitivity=sensitivity, scale=scale, ledger=Ledger("replace_one"), randomness=randomness)
    exact, averages, scale = sums / n, noisy / n, scale / n
    uniform = sampling.TreeMeasure.uniform(family.sizes)
    product = sampling.product_measure(family, averages)
    measures: dict[str, sampling.AnyExplicit] = {
        "uniform": uniform,
        "product": product,
        "half product, half uniform": sampling.MixtureMeasure(((0.5, product), (0.5, uniform))),
        "tree": sampling.tree_measure(family, averages, scale),
        "default mixture": sampling.released_measure("tree", family, averages, scale),
    }
    for title, measure in measures.items():
        kappa = sampling.renyi_condition_number(train, measure)
        for m in settings["points"]:
            space = Pool(family, measure.sample(m, rng))
            optimum = fit_columns(space, exact, loss="chebyshev", gap=1e-4, rng=rng).value
            yield {"dataset": name, "measure": title, "m": m, "trial": trial, "kappa": kappa, "optimum": optimum}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the noise-free optimum over m, a curve for each measure."""
    sets = tables[CARD]["dataset"].unique()
    with drawing(len(sets), max(2, len(sets)), entries=3, height=2.3, space=0.5) as (figure, axes):
        for ax, name in zip(axes, sets, strict=True):
            for i, (measure, rows) in enumerate(rows_where(tables[CARD], dataset=name).groupby("measure")):
                curve(ax, rows["m"], rows["optimum"], rows["optimum_stderr"], label=str(measure), **look(i))
            ax.set(xscale="log", xlabel="points m", ylabel="noise-free optimum", title=name)
    return figure


KAPPA = Card(
    id=CARD, title="Reduced space: which measure to draw the points from",
    caption="Noise-free LP optimum over the number of points m, for measures built from one release at epsilon = 1, "
            "with their Rényi condition number κ. It reads the private rows: an evaluation, not a release.",
    defaults={"trials": 2, "sets": SETS[:2], "epsilon": 1.0, "points": (300, 1000, 3000, 10_000)},
    parts=one_part_a_split, run=run,
    tables=lambda rows, settings: {CARD: mean_table(rows, ["dataset", "measure", "m"], ["kappa", "optimum"])},
    figure=figure, datasets=SETS[:2],
)  # fmt: skip
