"""A star: every column given one of them, from noisy counts of its pairs."""

from marginalia.marginals.estimation import estimate
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.synthesis.base import ModelSynthesizer
from marginalia.synthesis.measuring import measure_all, number_of_records


class Star(ModelSynthesizer):
    """Measure each column together with the last one, and answer as if nothing else were related.

    Privacy: (epsilon, delta)-DP under either relation and for units of several rows, k Gaussian events, k the number of
    pairs, which follow from the public domain. A row is in one cell of a marginal: what a neighbour changes of it has
    2-norm `session.neighbours.marginal_sensitivity_l2` at most (1 for a row more or less). Counts are whole numbers.
    The model that follows is computed from the noisy counts and the domain alone.
    """

    UNITS = True  # a fit may protect all rows of a person: the sensitivity above covers it

    def _release(self, table, session):
        *others, hub = table.domain.names
        pairs = [(name, hub) for name in others] or [(hub,)]
        budget, sensitivity = session.ledger.remaining_budget(), session.neighbours.marginal_sensitivity_l2
        sigma = gaussian_sigma(*budget, sensitivity=sensitivity, releases=len(pairs))
        self.measurements_ = measure_all(table, pairs, sigma, session)  # rows are read here, by a mechanism
        total = number_of_records(table, session.ledger, self.measurements_)
        self.model_ = estimate(table.domain, self.measurements_, total=total)
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else round(self.model_.total)
