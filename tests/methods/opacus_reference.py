"""A run of DP-SGD by Opacus, with the steps of `descend`: what the closed form is compared with."""

import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.data_loader import DPDataLoader


def descend_by_opacus(X, y, task, run, batches, seed):
    """Return the last iterate of `run`: the law of `descend` with one run, up to single precision.

    Opacus draws the batches at the rate of `batches` (its own loader would round 1/rate to a whole number), clips and
    adds the noise.
    """
    torch.set_num_threads(1)
    draws, noise = (torch.Generator().manual_seed(2 * seed + i) for i in range(2))
    target = (y + 1) / 2 if task == "logistic" else y
    rows = torch.utils.data.TensorDataset(*(torch.from_numpy(a.astype(np.float32)) for a in (X, target)))
    model = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about generators that are not cryptographic, and hooks of torch itself
        # Sums: Opacus would divide a mean by a batch size of its own rounding.
        net, optimizer, loader = PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=run.learning_rate / batches.size),
            data_loader=DPDataLoader(rows, sample_rate=batches.rate, generator=draws),
            noise_multiplier=run.noise_multiplier,
            max_grad_norm=run.clip,
            poisson_sampling=False,  # the loader does it already
            loss_reduction="sum",
            noise_generator=noise,
        )
        loss = torch.nn.BCEWithLogitsLoss(reduction="sum") if task == "logistic" else torch.nn.MSELoss(reduction="sum")
        t = 0
        while t < run.steps:
            for x, values in loader:
                for group in optimizer.param_groups:
                    group["lr"] = run.learning_rate / (1 + run.decay * t) / batches.size
                optimizer.zero_grad()
                loss(net(x).squeeze(-1), values).backward()
                optimizer.step()
                t += 1
                if t == run.steps:
                    break
    return model.weight.detach().numpy().astype(float)[0]
