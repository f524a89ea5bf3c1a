"""Adapter for twinify: NAPSU-MQ (Räisä et al. 2023), a posterior of maximum-entropy models, on small domains.

Replace one: a row moves two cells of each marginal (napsu_mq/napsu_mq.py:100), and the number of rows is taken as
public. All pairs are asked; left to choose, it would spend epsilon a second time: see docs/peers.md. The parameter
``sets`` makes so many synthetic tables, one below the other, each from another draw of the posterior.
"""

import itertools

import d3p.random
import pandas as pd
from twinify.napsu_mq.napsu_mq import NapsuMQModel

DISTRIBUTION = "twinify"
METHODS = {"napsu_mq": {"tasks": [], "relations": ["replace_one"], "about": "NAPSU-MQ of twinify, all pairs"}}


def fit(request):
    """Return the codes of all synthetic tables."""
    codes = {name: pd.Categorical(column, range(request.sizes[name])) for name, column in request.columns.items()}
    fitting, making = d3p.random.split(d3p.random.PRNGKey(request.seed), 2)
    pairs = list(itertools.combinations(request.columns, 2))
    model = NapsuMQModel([]).fit(pd.DataFrame(codes), fitting, request.epsilon, request.delta, query_sets=pairs)
    made = model.generate(making, request.parameters.get("sets", 1), request.rows)
    return {name: made[name].cat.codes.to_numpy() for name in request.columns}
