import csv
import itertools
import math

import aim_choice
import aim_constants_report as report
import numpy as np
import pytest
from aim_arms import ADDED, ARMS, DROPPED, EPSILONS, LOOKED_AT, ORIGIN_OF, ORIGINS, OUTSIDE, PAPER, SEEDS, Fit
from aim_choice import Option, by_origin, chosen, log_ratios, records, shortlist
from aim_constants import aim_with, currency_of, planned
from aim_target import FACTORS, Score, target_workload
from tiers import others_slow

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.marginals.workload import Workload

STUDIED = [table for tables in ORIGINS.values() for table in tables]


@pytest.fixture(autouse=True)
def _facts_without_files(monkeypatch):
    places = {table: i for i, table in enumerate(ORIGIN_OF)}
    monkeypatch.setattr(aim_choice, "records", lambda cell: cell[1] * 10.0 ** (places[cell[0]] % 4))


def rows_of(task, seeds, log_ratio):
    """Made-up errors: `log_ratio(arm, table, epsilon)` beside the paper's, which is 1."""
    arms = [a for a in ARMS if a not in DROPPED and (task != "screen" or a not in ADDED)]
    return [
        Fit(task, table, epsilon, arm, seed, math.exp(log_ratio(arm, table, epsilon)), 9, "gdp", 0.1)
        for arm, table, epsilon, seed in itertools.product(arms, STUDIED, EPSILONS, seeds)
    ]


def noisy(seed):
    rng = np.random.default_rng(seed)
    known = {}

    def log_ratio(arm, table, epsilon):
        return 0.0 if arm == PAPER else known.setdefault((arm, table, epsilon), float(rng.normal(-0.02, 0.1)))

    return log_ratio


def study(log_ratio):
    return rows_of("screen", SEEDS["screen"], log_ratio) + rows_of("confirm", SEEDS["confirm"], log_ratio)


@pytest.mark.parametrize("seed", others_slow(range(2)))
def test_a_choice_is_the_best_of_all_that_the_other_origins_say(seed):
    log_ratio = noisy(seed)
    rows = study(log_ratio)
    for origin in ("acs", "law"):
        constants, rule = chosen(rows, without=origin)
        others = [o for o in ORIGINS if o != origin]

        def mean(option, others=others):
            return np.mean(
                [np.mean([log_ratio(option.arm((t, e)), t, e) for t in ORIGINS[o] for e in EPSILONS]) for o in others]
            )

        short = shortlist(rows, without=origin)
        assert mean(constants) == pytest.approx(min(mean(Option(arm)) for arm in short))
        ruled = [a for a in (*aim_choice.RULED, *ADDED) if a in (PAPER, *short)]
        brute = [Option(a, t, b) for a in ruled for b in ruled if a != b for t in aim_choice.THRESHOLDS]
        assert mean(rule) == pytest.approx(min(map(mean, brute)))


def test_a_choice_does_not_see_what_judges_it():
    rows = study(noisy(0))
    outside = [
        Fit("outside", t, e, a, 1, 1e-9, 9, "gdp", 0.1) for t, a, e in itertools.product(["adult"], ARMS, EPSILONS)
    ]
    for origin in ("acs", "law"):
        before = chosen(rows, without=origin)
        other = [Fit(*(*vars(r).values(),)[:5], r.error * (3 if r.arm == PAPER else 1), 9, "gdp", 0.1)
                 if ORIGIN_OF[r.table] == origin else r for r in rows]  # fmt: skip
        held = [Fit("held", *(*vars(r).values(),)[1:5], 5.0, 9, "gdp", 0.1) for r in rows]
        assert chosen([*other, *held, *outside], without=origin) == before


def test_an_option_takes_an_arm_by_the_records_of_a_cell():
    option = Option("rounds 4", 100, PAPER)
    for cell in itertools.product(STUDIED, EPSILONS):
        assert option.arm(cell) == ("rounds 4" if aim_choice.records(cell) < 100 else PAPER)


def test_records_are_counted_over_the_cells_of_all_pairs():
    from aim_arms import table_of

    sizes = table_of("diabetes").domain.sizes
    cells = np.mean([a * b for a, b in itertools.combinations(sizes, 2)])
    assert records(("diabetes", 0.5)) == pytest.approx(0.5 * 442 / cells)


def test_seeds_that_judge_chose_nothing():
    judging = {*SEEDS["held"]} | {*SEEDS["outside"]}
    assert not judging & ({*SEEDS["screen"]} | {*SEEDS["confirm"]})
    assert not {*STUDIED} & {t for tables in OUTSIDE.values() for t in tables}


@pytest.mark.slow
def test_what_is_planned_is_each_cell_once_and_needs_no_row_twice():
    rows = study(noisy(1))
    for task in SEEDS:
        keys = list(planned(task, rows))
        assert len(keys) == len(set(keys))
        assert {seed for *_, seed in keys} <= {*SEEDS[task]}
    first = {(table, arm) for table, _, arm, _ in planned("screen", [])}
    assert {arm for table, arm in first if table in LOOKED_AT} == {*ARMS} - {*ADDED}
    assert not {arm for table, arm in first if table not in LOOKED_AT} & {*DROPPED, *ADDED}


def test_ratios_are_of_the_same_seed_and_the_mean_is_of_cells_then_tables():
    rows = [
        Fit("held", table, 1.0, arm, seed, error, 9, "gdp", 0.1)
        for table, arm, seed, error in [
            ("compas", PAPER, 1, 1.0), ("compas", PAPER, 2, 4.0), ("compas", "rounds 4", 1, 2.0),
            ("compas", "rounds 4", 2, 4.0), ("compas_bool13", PAPER, 1, 1.0), ("compas_bool13", "rounds 4", 1, 8.0),
        ]
    ]  # fmt: skip
    ratios = log_ratios(rows, ("held",))
    assert ratios["rounds 4"]["compas", 1.0] == pytest.approx([math.log(2), 0.0])
    assert by_origin(Option("rounds 4"), ratios)["compas"] == pytest.approx((0.5 * math.log(2) + math.log(8)) / 2)


@pytest.mark.parametrize(
    "arm", ["rounds 32", "selection 0.3", "one_way 2", "anneal_at 0.5, anneal_by 1.4", "anneal_by 4"]
)
def test_every_arm_spends_its_budget_and_no_more(arm):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 800)
    table = Table(
        np.column_stack([a, (a + rng.integers(0, 2, 800)) % 3, rng.integers(0, 4, 800)]),
        Domain.from_sizes({"a": 3, "b": 3, "c": 4}),
    )
    aim = aim_with(ARMS[arm], epsilon=1.0, random_state=0).fit(table)
    assert 1 - 1e-9 <= aim.ledger_.epsilon_spent <= 1
    assert aim.ledger_.certified
    assert currency_of(aim) == "gdp"
    falls = {round(x.sigma / y.sigma, 9) for x, y in itertools.pairwise(aim.history_[:-1])}
    assert falls <= {1.0, round(ARMS[arm].anneal_by, 9)}
    assert all(r.epsilon * r.sigma == pytest.approx(ARMS[arm].sharpness) for r in aim.history_)


def test_a_target_weighs_as_much_as_the_factor_says():
    domain = Domain.from_sizes({"a": 2, "b": 2, "y": 2})
    weights = Workload.parse(target_workload(domain.names, "y", 4), domain).closure()
    assert weights[2,] == 8
    assert weights[0, 1] == (1 + 4) + (1 + 4)
    assert weights[0, 2] == (1 + 4) + 8


@pytest.mark.slow
def test_the_report_shows_what_was_held_back_and_nothing_else(tmp_path, monkeypatch):
    log_ratio, judged = noisy(2), ("held", "outside")
    tables = {"held": STUDIED, "outside": [t for ts in OUTSIDE.values() for t in ts]}
    arms = [a for a in ARMS if a not in DROPPED]
    rows = study(log_ratio) + [
        Fit(task, t, e, arm, seed, 1.0 if arm == PAPER else 0.9 + 0.001 * seed, 9, "gdp", 0.1)
        for task in judged for t in tables[task] for e in EPSILONS for arm in arms for seed in SEEDS[task]
    ]  # fmt: skip
    write_rows(tmp_path / "aim_constants.csv", rows)
    scores = [
        Score(t, "logistic", 1.0, 1, f, method, "auc", 0.8 if f == 0 else 0.7 + 0.001 * f, 0.1)
        for t in ("compas", "law")
        for f, method in [(0, "objective_perturbation"), *itertools.product(FACTORS, ("dd_ssp", "aim_synth"))]
    ]
    for t in ("adult", "nist_taxi@dd_ssp"):
        scores += [
            Score(t, "linear", 1.0, 1, f, method, "mse", 0.2 if f == 0 else 0.2 * 1.1, 0.1)
            for f, method in [(0, "ada_ssp"), *itertools.product(FACTORS, ("dd_ssp", "aim_synth"))]
        ]
    write_rows(tmp_path / "aim_target.csv", scores)
    monkeypatch.setattr(report, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(report, "ROOT", tmp_path)
    marker = "<!-- table: aim_constants_outside.csv columns=origin,gain_constants digits=3 -->\n<!-- end -->\n"
    (tmp_path / "page.md").write_text(marker, encoding="utf-8")
    report.write_report(tmp_path / "aim_constants.csv")
    gain = 100 * (1 - np.exp(np.mean(np.log(0.9 + 0.001 * np.array(SEEDS["outside"])))))
    assert f"| adult | {gain:.3g} |" in (tmp_path / "page.md").read_text(encoding="utf-8")
    target = {(r["metric"], r["method"]): r for r in report.targets(scores)}
    assert target["auc", "dd_ssp"]["loss_x1"] == pytest.approx(9.9)
    assert target["auc", "dd_ssp"]["gain"] == pytest.approx(0.1 * (FACTORS[-1] - 1))
    assert target["mse", "aim_synth"]["loss_x8"] == pytest.approx(100 * math.log(1.1))
    assert (tmp_path / "page.png").stat().st_size > 5000


def write_rows(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(vars(rows[0])))
        writer.writeheader()
        writer.writerows(map(vars, rows))
