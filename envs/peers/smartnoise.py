"""Adapter for smartnoise-synth: AIM and MST on coded columns, nothing spent on preprocessing."""

import numpy as np
import pandas as pd
from snsynth import Synthesizer

DISTRIBUTION = "smartnoise-synth"
METHODS = {
    "aim": {"tasks": [], "relations": ["add_remove"], "about": "AIM of smartnoise-synth"},
    "mst": {"tasks": [], "relations": ["add_remove"], "about": "MST of smartnoise-synth"},
}


def fit(request):
    """Return synthetic codes; it draws from NumPy's global state."""
    np.random.seed(request.seed)  # noqa: NPY002
    frame = pd.DataFrame(request.columns)
    model = Synthesizer.create(request.method, epsilon=request.epsilon, delta=request.delta, **request.parameters)
    made = model.fit_sample(frame, categorical_columns=list(frame), preprocessor_eps=0.0)
    return {name: made[name].to_numpy().astype(int) for name in frame}
