"""Compare ``tr.Laplace`` with laplace-torch at the same weights: log-likelihood and time.

One network is trained per case and handed to both, with the same noise, so that both linearize at
the same place; then each computes its curvature, tunes one prior precision by the evidence and
predicts the test rows, in turns in one process on one thread.  The number of epochs is chosen by
the log-likelihood of a fifth of the training rows, by the network alone.

    python -m benchmarks.laplace [--splits 10] [--out benchmarks/results/laplace.json]

laplace-torch is looked for in ``.venv-laplace`` (``pip install --no-deps --target .venv-laplace``),
so that it does not choose the version of torch.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import tractable as tr
from tractable.data import Standardizer, mnist, uci
from tractable.training.data import ArrayData

sys.path.append(str(Path(__file__).parent.parent / ".venv-laplace"))
SETS = ("boston", "concrete")
EPOCHS = (50, 100)
HIDDEN = 50
STRUCTURES = {"diagonal": ("all", "diag"), "last_layer": ("last_layer", "full")}
Data = tuple[Tensor, Tensor, Tensor, Tensor]
Predict = Callable[[nn.Module, float, str, Data], Tensor]


# --- the two libraries -------------------------------------------------------------------------


def ours(net: nn.Module, sigma: float, structure: str, data: Data) -> Tensor:
    """Return the log-likelihood of every test row by this library."""
    x, y, x_test, y_test = data
    likelihood = tr.likelihoods.Normal(sigma) if sigma else tr.likelihoods.Softmax(10)
    options: Any = {"structure": structure, "refine": 0, "init": "net", "dtype": x.dtype}
    model = tr.Laplace(net, likelihood, **options)
    x, y = model.checks.data(x, y)
    model.method.end_fit(model.state, ArrayData(x, y, len(x)))
    return (
        model.outputs(*model.checks.data(x_test, y_test)[:1])
        .predictive()
        .log_prob(y_test)
        .flatten()
    )


def theirs(net: nn.Module, sigma: float, structure: str, data: Data) -> Tensor:
    """Return the same by laplace-torch, with its defaults for backend and tuning."""
    from laplace import Laplace

    x, y, x_test, y_test = data
    subset, hessian = STRUCTURES[structure]
    task = "regression" if sigma else "classification"
    noise = {"sigma_noise": sigma} if sigma else {}
    model: Any = Laplace(net, task, subset_of_weights=subset, hessian_structure=hessian, **noise)
    model.fit(DataLoader(TensorDataset(x, y), batch_size=1000))
    model.optimize_prior_precision(method="marglik", pred_type="glm", prior_structure="scalar")
    found = []
    for rows, seen in zip(x_test.split(1000), y_test.split(1000), strict=True):
        if sigma:
            mean, variance = model(rows)
            total = variance.reshape(mean.shape) + sigma**2
            density = torch.distributions.Normal(mean, total.sqrt()).log_prob(seen)
            found.append(density.flatten().detach())
        else:
            probs = model(rows, link_approx="probit").detach()
            found.append(probs.gather(1, seen.unsqueeze(1)).log().flatten())
    return torch.cat(found)


# --- the networks -----------------------------------------------------------------------------


def trained(
    net: nn.Module, likelihood: Any, x: Tensor, y: Tensor, epochs: int, **options: Any
) -> Any:
    """Fit a point estimate with a standard normal prior."""
    size = options.pop("batch_size")
    model = tr.Backprop(net, likelihood, prior=tr.priors.Normal(1.0), dtype=x.dtype, **options)
    return model.fit(x, y, epochs=epochs, batch_size=size, progress=False)


def table(name: str, split: int) -> tuple[nn.Module, float, Data, int]:
    """Return a trained network, its noise, standardized rows, and the chosen epochs."""
    x, y, x_test, y_test = uci(name, dtype=torch.float64).split(split)
    inputs, targets = Standardizer.fit(x), Standardizer.fit(y)
    x, x_test = inputs.transform(x), inputs.transform(x_test)
    y, y_test = targets.transform(y), targets.transform(y_test)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(split))
    held, kept = order[: len(x) // 5], order[len(x) // 5 :]
    net = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)).double()
    options = {"lr": 1e-2, "seed": split, "batch_size": 32}

    def score(epochs: int) -> float:
        model = trained(net, tr.likelihoods.Normal(), x[kept], y[kept], epochs, **options)
        return float(model.predict(x[held]).log_prob(y[held]).mean())

    epochs = max(EPOCHS, key=score)
    model = trained(net, tr.likelihoods.Normal(), x, y, epochs, **options)
    sigma = float(model.likelihood.noise_mean.sqrt())
    return model.mean_module(), sigma, (x, y, x_test, y_test), epochs


def digits() -> tuple[nn.Module, float, Data, int]:
    """Return the same for MNIST, with a fixed number of epochs."""
    held = mnist()
    x, x_test = held.train_images.flatten(1), held.test_images.flatten(1)
    data = (x, held.train_labels, x_test, held.test_labels)
    net = nn.Sequential(nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    options = {"lr": 1e-3, "seed": 0, "batch_size": 128}
    model = trained(net, tr.likelihoods.Softmax(10), data[0], data[1], 3, **options)
    return model.mean_module(), 0.0, data, 3


# --- the comparison ---------------------------------------------------------------------------


def in_turns(
    case: tuple[nn.Module, float, Data, int], structure: str, first: int, rounds: int = 3
) -> dict[str, tuple[Tensor, float]]:
    """Return log-likelihoods of the test rows, and the shortest duration of some rounds."""
    net, sigma, data, _ = case
    both: list[tuple[str, Predict]] = [("tractable", ours), ("laplace-torch", theirs)]
    found: dict[str, tuple[Tensor, float]] = {}
    for i in range(rounds):
        for name, predict in both[:: 1 if (first + i) % 2 else -1]:
            started = time.process_time()
            log_prob = predict(net, sigma, structure, data)
            seconds = time.process_time() - started
            found[name] = log_prob, min(seconds, found.get(name, (0, math.inf))[1])
    return found


def summary(values: Tensor, seconds: list[float]) -> dict[str, float]:
    """Return mean and standard error, and the mean duration."""
    error = values.double().std() / len(values) ** 0.5
    return {
        "log_likelihood": round(float(values.double().mean()), 4),
        "standard_error": round(float(error), 4),
        "seconds": round(sum(seconds) / len(seconds), 4),
    }


def of_tables(name: str, splits: int) -> dict[str, Any]:
    """Return means over splits."""
    cases = [table(name, split) for split in range(splits)]
    result: dict[str, Any] = {"epochs": [case[3] for case in cases]}
    for structure in STRUCTURES:
        runs = [in_turns(case, structure, k) for k, case in enumerate(cases)]
        result[structure] = {
            who: summary(
                torch.stack([run[who][0].mean() for run in runs]), [run[who][1] for run in runs]
            )
            for who in ("laplace-torch", "tractable")
        }
    return result


def of_digits() -> dict[str, Any]:
    """Return means over test rows."""
    run = in_turns(digits(), "last_layer", 0, rounds=1)
    gap = (run["tractable"][0] - run["laplace-torch"][0]).abs().max()
    print(f"mnist: largest difference of a row {float(gap):.2g}")
    return {"last_layer": {who: summary(run[who][0], [run[who][1]]) for who in sorted(run)}}


def main() -> None:
    """Run the comparison and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/laplace.json"))
    parser.add_argument("--no-mnist", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    results = {} if args.no_mnist else {"mnist": of_digits()}
    results |= {name: of_tables(name, args.splits) for name in SETS}
    record = {
        "command": f"python -m benchmarks.laplace --splits {args.splits}",
        "seed": 0,
        "threads": 1,
        "seconds_are": "processor time of curvature, tuning and prediction of the test rows",
        "seconds": round(time.perf_counter() - started, 1),
        "versions": {name: version(name) for name in ("torch", "laplace-torch")},
        "results": results,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    for name, found in results.items():
        for structure in STRUCTURES:
            for who, values in found.get(structure, {}).items():
                print(f"{name:10s} {structure:11s} {who:14s} {values}")


if __name__ == "__main__":
    main()
