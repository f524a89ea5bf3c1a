"""Releases of declared analyses for tests: exact sums once, their noise redrawn as often as a test asks."""

from dataclasses import replace

import numpy as np

from marginalia.analyses.analyses import Analyses
from marginalia.analyses.basis import UNIT
from marginalia.analyses.declared import Declared
from marginalia.analyses.declared_analyses import DeclaredAnalyses
from marginalia.analyses.planning import COUNT, Linears
from marginalia.privacy.relation import Neighbours, Relation


def declare(*formulas, family="gaussian"):
    return {"analyses": [{"formula": f, "family": family} for f in formulas]}


def fitted(table, analyses, epsilon=1.0, relation="replace_one", seed=0):
    made = DeclaredAnalyses(analyses=analyses, epsilon=epsilon, relation=relation, random_state=seed)
    return made.fit(table)


def exact_of(made: DeclaredAnalyses, table) -> np.ndarray:
    """The sums of a release without noise, the number of rows first."""
    linears = Linears(table.domain, Analyses.parse(made.analyses), Neighbours(Relation(made.relation)))
    sums = [group.sums(table) * UNIT for group in linears.groups if group is not COUNT]
    return np.concatenate([[float(len(table))], *sums])


def redrawn(declared: Declared, exact, rng) -> Declared:
    return replace(declared, values=exact + rng.normal(size=len(exact)) * np.sqrt(declared.variances))
