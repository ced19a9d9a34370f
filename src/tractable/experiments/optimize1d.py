"""Optimisation of a function of one variable by inference: table 2 and figure 3.

``y = x^3 - 3 x + v`` with ``v ~ N(0, 0.1^2)`` is learnt by the network of table 6; then eqs. (3)
and (4) walk from x = 0.25 and x = -0.25, with a standard deviation of 0.01, to its maximum at -1
or its minimum at +1.  The paper does not give the number of observations nor of epochs; here the
walk starts when the function is learnt, and stays in the box of the data.

Observations, epochs, ``forget`` and the least step of ``optimize`` were chosen by looking at the
results of seeds 0 to 9, so the seeds that are reported are the next ten.

    python -m tractable.experiments.optimize1d
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import tractable as tr
from tractable.experiments.record import Record, table
from tractable.infer import derivatives, optimize

BOX = (-2.0, 2.0)
SIGMA_X = 0.01


@dataclass(frozen=True)
class Row:
    """A row of table 2: start, constraint, the published result and the true extremum."""

    start: float
    maximize: bool | None
    published: float
    truth: float

    @property
    def name(self) -> str:
        """As the table names it."""
        alpha = {None: "eq. 3", True: "eq. 4, alpha = +1", False: "eq. 4, alpha = -1"}
        return f"{self.start:+.2f}, {alpha[self.maximize]}"


ROWS = (
    Row(0.25, None, 0.965, 1.0),
    Row(-0.25, None, -0.992, -1.0),
    Row(0.25, True, -0.993, -1.0),
    Row(-0.25, True, -0.992, -1.0),
    Row(0.25, False, 0.965, 1.0),
    Row(-0.25, False, 0.965, 1.0),
)


def data(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Noisy observations, uniform over the box."""
    generator = torch.Generator().manual_seed(seed)
    x = BOX[0] + (BOX[1] - BOX[0]) * torch.rand(n, 1, generator=generator)
    return x, x**3 - 3 * x + 0.1 * torch.randn(n, 1, generator=generator)


def learn(x: Tensor, y: Tensor, epochs: int, seed: int) -> tr.TAGI:
    """The network of table 6: 64 tanh, 64 ReLU."""
    net = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1), forget=1.0, seed=seed)
    return model.fit(x, y, epochs=epochs, batch_size=10, progress=False)


def locate(model: tr.TAGI, row: Row, steps: int) -> tuple[float, float, str]:
    """Where a row ends: mean, standard deviation and reason."""
    found = optimize(model, [[row.start]], SIGMA_X, row.maximize, steps, tolerance=1e-5, bounds=BOX)
    return float(found.location.loc), float(found.location.stddev), found.reason[0]


def figure(model: tr.TAGI, x: Tensor, y: Tensor, path: Path) -> None:
    """Figure 3: the data, the function learnt, its derivative and the covariance."""
    from matplotlib.figure import Figure

    grid = torch.linspace(*BOX, 401).unsqueeze(1)
    line = grid[:, 0]
    predicted = model.predict(grid)
    slope = derivatives(model, grid, sigma=SIGMA_X)
    sheet = Figure(figsize=(10, 7), layout="constrained")
    (a, b), (c, d) = sheet.subplots(2, 2)
    a.plot(x[:, 0], y[:, 0], ".", color="0.7", markersize=2)
    a.plot(line, line**3 - 3 * line, "k--", label="truth")
    a.set(title="a) observations", xlabel="x", ylabel="y")
    for axes, truth, mean, sd, title in (
        (b, line**3 - 3 * line, predicted.mean[:, 0], predicted.std[:, 0], "b) function"),
        (c, 3 * line**2 - 3, slope.mean[:, 0, 0], slope.variance[:, 0, 0].sqrt(), "c) derivative"),
    ):
        axes.plot(line, truth, "k--", label="truth")
        axes.plot(line, mean, label="mean")
        axes.fill_between(line, mean - 3 * sd, mean + 3 * sd, alpha=0.3, label="3 sd")
        axes.set(title=title, xlabel="x")
        axes.legend()
    d.axhline(0, color="k", linewidth=0.5)
    d.plot(line, 6 * line * SIGMA_X**2, "k--", label="truth")
    d.plot(line, slope.covariance[:, 0, 0], label="inferred")
    d.set(title="d) covariance of derivative and input", xlabel="x")
    d.legend()
    sheet.savefig(path, dpi=120)


def main() -> None:
    """Learn and locate with several seeds, print table 2, draw figure 3."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--observations", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--figures", action="store_true", help="draw figure 3 of the first seed")
    parser.add_argument("--out", type=Path, default=Path("results"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    seeds = list(range(args.first_seed, args.first_seed + args.seeds))
    settings = {k: getattr(args, k) for k in ("observations", "epochs", "steps")}
    record = Record("optimize1d", seeds=seeds, settings=settings)
    ends: dict[str, list[float]] = {row.name: [] for row in ROWS}
    reasons: dict[str, list[str]] = {row.name: [] for row in ROWS}
    for seed in seeds:
        x, y = data(args.observations, seed)
        model = learn(x, y, args.epochs, seed)
        for row in ROWS:
            mean, _, reason = locate(model, row, args.steps)
            ends[row.name].append(mean)
            reasons[row.name].append(reason)
        if seed == seeds[0] and args.figures:
            args.out.mkdir(parents=True, exist_ok=True)
            figure(model, x, y, args.out / "optimize1d.png")
    lines = []
    for row in ROWS:
        found = torch.tensor(ends[row.name], dtype=torch.float64)
        sd = float(found.std()) if len(found) > 1 else 0.0
        near = float(((found - row.truth).abs() < 0.03).double().mean())
        record.figures[row.name] = {
            "paper": row.published,
            "truth": row.truth,
            "mean": float(found.mean()),
            "sd": sd,
            "share within 0.03": near,
            "located": ends[row.name],
            "reasons": reasons[row.name],
        }
        ours = f"{float(found.mean()):+.3f} ± {sd:.3f}"
        lines.append([row.name, f"{row.published:+.3f}", ours, f"{row.truth:+.0f}", f"{near:.0%}"])
    path = record.write(args.out)
    print(table(lines, ["start, constraint", "paper", "ours", "truth", "within 0.03"]))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
