"""The setting of DP-SGD by a public rule, which looks at no data.

All rows are in every batch: the noise of the averaged iterate then does not depend on the number of steps, and its
price is that of Gaussians, exact. What remains is how far to go and where to clip, which follow from one number, q:
the noise that a whole run adds to a mean gradient, times the square of a row's length.
"""

from __future__ import annotations

import math

from marginalia.data.encoding import TaskName
from marginalia.methods.dp_sgd.descent import Run

STEPS = 80
MOMENTUM = 0.95
# For the loss of each task: clip over row length times the third root of q; the horizon, step length times number of
# steps, in units of 1/(clip over row length times q); the largest curvature of the loss by the score.
CONSTANTS: dict[TaskName, tuple[float, float, float]] = {"linear": (0.1, 0.5, 2.0), "logistic": (0.1, 3.0, 0.25)}


def run_by_rule(task: TaskName, *, bound: float, n: int, noise_multiplier: float) -> Run:
    """Return the run of `STEPS` full batches for n rows of 2-norm at most `bound`.

    With q = bound² noise_multiplier/(n sqrt(T)), rows are clipped to C = c bound, where c = kappa q^(-1/3), cut to
    [0.1, 1], balances the bias of clipping with the noise. Steps have length eta = (1 - beta) A/(T c q), so that the
    noise of a score stays below A wherever the loss is flat, and at most 1.9 (1 + beta)/(h bound²), h the largest
    curvature of the loss: then no table makes the run diverge. Few rows, or a small epsilon, mean a large q and a short
    way; no noise is q = 0. The constants were chosen with a prototype: on Adult, COMPAS and ACS Employment (logistic;
    last changed after a look at COMPAS at epsilon 0.1), and on Adult (linear; NIST taxi saw a grid of clips and rates).

    Parameters
    ----------
    task : {"linear", "logistic"}
    bound : float
        Public; of the gradient's direction: of one row, its constant included.
    n : int
        Public.
    noise_multiplier : float
        Noise of a step over the clip, 0 or more.

    >>> run = run_by_rule("logistic", bound=4.0, n=40_000, noise_multiplier=67.0)
    >>> round(run.clip, 2), round(run.learning_rate, 2)
    (2.77, 0.9)
    """
    kappa, horizon, curvature = CONSTANTS[task]
    longest = 1.9 * (1 + MOMENTUM) / (curvature * bound**2)  # from 2 on the hardest rows would make it diverge
    q = bound**2 * noise_multiplier / (n * math.sqrt(STEPS))
    share = min(max(kappa * q ** (-1 / 3), 0.1), 1.0) if q > 0 else 1.0
    # Steps are in units of 1/bound², for q holds it.
    rate = min((1 - MOMENTUM) * horizon / (STEPS * share * q), longest) if q > 0 else longest
    return Run(STEPS, rate, share * bound, noise_multiplier, momentum=MOMENTUM, average=True)
