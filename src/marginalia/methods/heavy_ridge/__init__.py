"""SSP with a hundred times its ridge."""

from __future__ import annotations

from marginalia.methods.record import Arm, Method

METHOD = Method(
    "heavy_ridge",
    "learner",
    {"linear": "marginalia.methods.heavy_ridge.heavy_ridge:HeavyRidgeRegressor"},
    (Arm("heavy_ridge", tasks=("linear",)),),
    about="SSP with a hundred times its ridge",
)
