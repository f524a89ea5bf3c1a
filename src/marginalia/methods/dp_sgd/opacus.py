"""DP-SGD by Opacus: the reference that the closed form of `descent` is checked and raced against."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from marginalia.data.encoding import TaskName
from marginalia.errors import InputError
from marginalia.learning.solvers import Array
from marginalia.methods.dp_sgd.descent import Batches, Run
from marginalia.privacy.events import PoissonGaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness


def descend_by_opacus(
    X: Array, y: Array, task: TaskName, run: Run, batches: Batches, ledger: Ledger | None, randomness: Randomness
) -> Array:
    """Return the last iterate of `run`: the law of `descend` with one run, up to single precision.

    Opacus draws the batches (its own loader would round 1/rate to a whole number, so it is given the rate), clips and
    adds the noise; the ledger is charged here, with the event of the closed form.
    """
    try:
        import torch
        from opacus import PrivacyEngine
        from opacus.data_loader import DPDataLoader
    except ImportError as error:
        raise InputError(f"backend='opacus' needs torch and opacus ({error}); use backend='closed_form'") from None
    if ledger is not None:
        # Torch's generators hang on a seed of 62 bits, whoever drew it.
        ledger.append(PoissonGaussianEvent(batches.rate, run.noise_multiplier, run.steps, "gradients"), "seeded")
    generators = [torch.Generator().manual_seed(int(randomness.generator.integers(2**62))) for _ in range(2)]
    target = (y + 1) / 2 if task == "logistic" else y
    rows = torch.utils.data.TensorDataset(*(torch.from_numpy(a.astype(np.float32)) for a in (X, target)))
    model: Any = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=run.learning_rate / batches.size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about generators that are not cryptographic, and hooks of torch itself
        # Sums: Opacus would divide a mean by a batch size of its own rounding.
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=DPDataLoader(rows, sample_rate=batches.rate, generator=generators[0]),
            noise_multiplier=run.noise_multiplier,
            max_grad_norm=run.clip,
            poisson_sampling=False,  # the loader does it already
            loss_reduction="sum",
            noise_generator=generators[1],
        )
        loss = torch.nn.BCEWithLogitsLoss(reduction="sum") if task == "logistic" else torch.nn.MSELoss(reduction="sum")
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # more would change the last bits from machine to machine
        t = 0
        while t < run.steps:
            for x, values in loader:
                for group in optimizer.param_groups:
                    group["lr"] = run.learning_rate / (1 + run.decay * t) / batches.size
                optimizer.zero_grad()
                loss(model(x).squeeze(-1), values).backward()
                optimizer.step()
                t += 1
                if t == run.steps:
                    break
        torch.set_num_threads(threads)
    return next(model.parameters()).detach().numpy().astype(np.float64)[0]
