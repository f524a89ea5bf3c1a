"""What the experiments on the DD-SSP paper's data sets share."""

from __future__ import annotations

from marginalia.data.catalogue import catalogue
from marginalia.data.table import Table
from marginalia.methods.task import Task
from marginalia.sweep.protocols import Prepared

SETS = ("adult@dd_ssp", "acs_income_lin@dd_ssp", "acs_employment@dd_ssp", "acs_mobility@dd_ssp")  # released splits
NAMES = {name: catalogue.title(name) for name in SETS}
MOST = 0.9  # of the inner products: what the paper's "most" is tested as
TIGHT = 0.1  # how far, as a share, the largest squared norm may stay below its bound
CLASSIFIED = tuple(name for name in NAMES if name != "acs_income_lin@dd_ssp")


def training_rows(data: Prepared) -> Table:
    """Return the rows of the released training file that the paper learns from."""
    return data.table.take(slice(data.train_limit))


def classification(data: Prepared) -> Task:
    """Return the task that is learned by logistic regression."""
    return next(task for task in data.tasks if task.task == "logistic")
