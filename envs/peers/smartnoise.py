"""Adapter for smartnoise-synth: AIM and MST on coded columns, nothing spent on preprocessing.

Add/remove: their Gaussian noise is that of sensitivity 1 (snsynth/utils.py:66, ``d_in=1.0``). The parameter
``sampling: sample`` draws rows with the other sampler of mbi: see docs/peers.md.
"""

import functools

import numpy as np
import pandas as pd
from mbi import MarkovRandomField
from snsynth import Synthesizer

DISTRIBUTION = "smartnoise-synth"
METHODS = {
    "aim": {"tasks": [], "relations": ["add_remove"], "about": "AIM of smartnoise-synth"},
    "mst": {"tasks": [], "relations": ["add_remove"], "about": "MST of smartnoise-synth"},
}


def fit(request):
    """Return synthetic codes; it draws from NumPy's global state."""
    np.random.seed(request.seed)  # noqa: NPY002
    frame, parameters = pd.DataFrame(request.columns), dict(request.parameters)
    if sampling := parameters.pop("sampling", ""):
        rows = MarkovRandomField.synthetic_data
        MarkovRandomField.synthetic_data = functools.partialmethod(rows, method=sampling)
    model = Synthesizer.create(request.method, epsilon=request.epsilon, delta=request.delta, **parameters)
    made = model.fit_sample(frame, categorical_columns=list(frame), preprocessor_eps=0.0)
    return {name: made[name].to_numpy().astype(int) for name in frame}
