"""Adapter for dpmm: AIM, MST and PrivBayes on coded columns, without its own preprocessing.

Add/remove: noise of sensitivity 1 (models/mst.py:119, models/aim.py:473). PrivBayes selects with a sensitivity for
replaced rows and adds noise for removed ones (models/priv_bayes.py:138 and 222); see docs/peers.md.
"""

import numpy as np
import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline

DISTRIBUTION = "dpmm"
METHODS = {
    "aim": {"tasks": [], "relations": ["add_remove"], "about": "AIM of dpmm"},
    "mst": {"tasks": [], "relations": ["add_remove"], "about": "MST of dpmm"},
    "privbayes": {"tasks": [], "relations": ["add_remove"], "about": "PrivBayes of dpmm"},
}
_CLASSES = {"aim": AIMPipeline, "mst": MSTPipeline, "privbayes": PrivBayesPipeline}


def fit(request):
    """Return synthetic codes, as many rows as were given; ``parameters`` go to the pipeline."""
    frame = pd.DataFrame(request.columns)
    model = _CLASSES[request.method](
        epsilon=request.epsilon, delta=request.delta, n_jobs=1, disable_processing=True, **request.parameters
    )
    random = np.random.RandomState(request.seed)
    model.fit(frame, domain=request.sizes, random_state=random)
    return model.generate(n_records=request.rows, random_state=random)
