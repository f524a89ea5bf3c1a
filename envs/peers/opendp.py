"""Adapter for opendp: AIM and MST of its ``extras.mbi`` on coded columns, in zero-concentrated privacy.

Add/remove: its unit is one contribution, a row (``make_contingency_table``, d_in of 1). All keys are public, so delta
serves the conversion from rho alone. Rows are drawn by the second sampler of mbi 1.1, as the first, its default, has a
known fault: see docs/peers.md. ``parameters`` go to the algorithm.
"""

import warnings

import numpy as np
import opendp.prelude as dp
import polars as pl

DISTRIBUTION = "opendp"
METHODS = {
    "aim": {"tasks": [], "relations": ["add_remove"], "about": "AIM of opendp, pairs"},
    "mst": {"tasks": [], "relations": ["add_remove"], "about": "MST of opendp"},
}


def rho_of(epsilon, delta):
    """Return the largest rho that opendp's own conversion turns into (epsilon, delta)."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    to_rho = lambda scale: dp.m.make_gaussian(*space, scale)  # noqa: E731
    to_delta = lambda scale: dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(to_rho(scale)), delta)  # noqa: E731
    return to_rho(dp.binary_search_param(to_delta, d_in=1.0, d_out=(epsilon, delta))).map(1.0)


def fit(request):
    """Return synthetic codes; its noise is the system's, and takes no seed."""
    dp.enable_features("contrib")
    warnings.simplefilter("ignore")
    np.random.seed(request.seed)  # noqa: NPY002 (rows are drawn from the global state)
    rho = rho_of(request.epsilon, request.delta)
    # It adds a cell for nulls to each column that has none: the code 0 takes that part.
    frame = pl.LazyFrame({name: codes.astype(np.int64) for name, codes in request.columns.items()})
    frame = frame.with_columns(pl.all().replace(0, None))
    keys = {name: [None, *range(1, size)] for name, size in request.sizes.items()}
    unit, loss = dp.unit_of(contributions=1), dp.loss_of(rho=rho)
    context = dp.Context.compositor(data=frame, privacy_unit=unit, privacy_loss=loss)
    algorithm = dp.mbi.MST if request.method == "mst" else dp.mbi.AIM
    chosen = {"queries": 2} if request.method == "aim" else {}
    query = context.query(rho=rho).select(*request.columns)
    table = query.contingency_table(keys=keys, algorithm=algorithm(**chosen | request.parameters)).release()
    made = table.synthesize(rows=request.rows, method="sample")
    return {name: made[name].fill_null(0).to_numpy() for name in request.columns}
