"""How the error of a private mean falls with the number of rows, for two ways of choosing the noise."""

import numpy as np

from marginalia.experiment import Curves, Experiment
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.sweep.seeds import seed_sequence


def rows(part, settings, seed, data):
    """Yield a row for each epsilon, trial and calibration, with `part` rows of made-up values in [0, 1]."""
    n = int(part)
    for epsilon in settings["epsilons"]:
        for trial in range(settings["trials"]):
            rng = np.random.default_rng(seed_sequence(seed, "private_mean", n, epsilon, trial))
            values = rng.uniform(size=n)
            sigmas = {
                "tight": gaussian_sigma(epsilon, 1e-5, sensitivity=1 / n),
                "classical": np.sqrt(2 * np.log(1.25e5)) / (epsilon * n),
            }
            for calibration, sigma in sigmas.items():
                error = abs(rng.normal(values.mean(), sigma) - values.mean())
                yield {"calibration": calibration, "n": n, "epsilon": epsilon, "trial": trial, "error": error}


EXPERIMENT = Experiment(
    id="private_mean",
    title="Error of a private mean",
    caption="Mean error of the Gaussian mechanism over the number of rows; bars: one standard error.",
    rows=rows,
    defaults={"records": [100, 1000, 10_000], "epsilons": [0.1, 1.0], "trials": 20},
    parts="records",
    keys=("calibration", "n", "epsilon"),
    figure=Curves("n", "error", curve="calibration", panel="epsilon", log="xy"),
)
