"""Adapter for Opacus: DP-SGD of a linear layer on Poisson batches, with the library's own accountant (PRV).

It runs in the main environment. Rows are scaled to norm 1 by the public bound of the encoding. Rate and number of steps
follow from the number of rows, which must be public. The default setting was chosen on tables that are not in the
default sweep: docs/dp-sgd.md.
"""

import math
import warnings
from typing import Any

import numpy as np

from marginalia.usage import shared

DISTRIBUTION = "opacus"
METHODS = {
    "dp_sgd": {
        "tasks": ["linear", "logistic"],
        "relations": ["add_remove", "replace_one"],
        "about": "DP-SGD of Opacus, with one public setting for each task",
    },
}
Model = tuple[Any, float, list[Any]]
SETTING = {
    "linear": {"lr": 0.5, "momentum": 0.9, "max_grad_norm": 0.3},
    "logistic": {"lr": 32.0, "momentum": 0.0, "max_grad_norm": 0.3},
}


class Rows:
    """A data set that is read batch by batch: reading a TensorDataset row by row is most of the time of a fit."""

    def __init__(self, *columns: Any) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows: Any) -> tuple[Any, ...]:
        import torch

        rows = torch.as_tensor(rows)  # once: each column would turn a list of thousands of numbers into a tensor
        return tuple(column[rows] for column in self.columns)

    __getitems__ = __getitem__


def budget(epsilon: float, delta: float, relation: str) -> tuple[float, float]:
    """Return epsilon and delta for add/remove, the relation of Opacus.

    Replacing a row removes one and adds another: (e, d)-DP for add/remove is (2e, (1 + exp(e)) d)-DP for replace one.
    """
    return (epsilon / 2, delta / (1 + math.exp(epsilon / 2))) if relation == "replace_one" else (epsilon, delta)


def slack(epsilon: float) -> float:
    """Return the error that the accountant may make: its default of 0.01 is a fifth of an epsilon of 0.05."""
    return min(0.01, epsilon / 50)


@shared
def noise_multiplier(epsilon: float, delta: float, rate: float, epochs: int) -> float:
    """Return the noise multiplier that Opacus finds for (epsilon, delta), as `make_private_with_epsilon` does."""
    from opacus.accountants.utils import get_noise_multiplier

    return float(
        get_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=delta,
            sample_rate=rate,
            epochs=epochs,
            accountant="prv",
            eps_error=slack(epsilon),
            epsilon_tolerance=slack(epsilon),
        )
    )


def fit(request: Any) -> Model:
    """Return weights, intercept, and the accountant's history: noise multiplier, sampling rate and steps."""
    return train(request, **{**SETTING[request.task], **request.parameters})


def train(
    request: Any, *, lr: float, momentum: float, max_grad_norm: float, share: float = 0.25, epochs: int = 20
) -> Model:
    """Train for `epochs` passes in batches of the expected `share` of the rows."""
    import torch
    from opacus import PrivacyEngine

    torch.set_num_threads(1)
    if request.seed is None:  # a forked process has the generator of its parent
        torch.seed()
    else:
        torch.manual_seed(request.seed)
    logistic = request.task == "logistic"
    y = (request.y + 1) / 2 if logistic else request.y
    X, y = (torch.from_numpy(a.astype(np.float32)) for a in (request.X / request.norm, y))
    model = torch.nn.Linear(X.shape[1], 1)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    loss = torch.nn.BCEWithLogitsLoss() if logistic else torch.nn.MSELoss()
    epsilon, delta = budget(request.epsilon, request.delta, request.relation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its generator is not cryptographic, and hooks of torch itself
        engine = PrivacyEngine()
        batches = torch.utils.data.DataLoader(Rows(X, y), batch_size=max(1, round(share * len(X))), collate_fn=tuple)
        net, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum),
            data_loader=batches,
            noise_multiplier=noise_multiplier(epsilon, delta, 1 / len(batches), epochs),
            max_grad_norm=max_grad_norm,
        )
        for _ in range(epochs):
            for x, target in loader:
                optimizer.zero_grad()
                loss(net(x).squeeze(-1), target).backward()
                optimizer.step()
    weights, intercept = (p.detach().numpy().astype(float) for p in model.parameters())
    return weights[0] / request.norm, float(intercept[0]), engine.accountant.history


def predict(model: Model, X: Any) -> Any:
    """Return scores or predictions."""
    weights, intercept, _ = model
    return X @ weights + intercept
