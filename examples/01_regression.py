"""Regression with prediction intervals on data with known noise.

The target is Friedman's function of five inputs plus standard normal noise; five more inputs are
irrelevant. The lowest possible test RMSE is therefore 1, and the inferred noise should be close
to 1.

    python examples/01_regression.py
"""

import torch
from sklearn.datasets import make_friedman1
from torch import nn

import tractable as tr
from tractable import metrics
from tractable.data import Standardizer


def main() -> None:
    """Fit on 2,000 rows and evaluate on 1,000."""
    torch.set_num_threads(1)
    features, values = make_friedman1(3000, n_features=10, noise=1.0, random_state=0)
    x, y = torch.tensor(features).float(), torch.tensor(values).float()
    train, held_out = slice(0, 2000), slice(2000, 3000)
    inputs, targets = Standardizer.fit(x[train]), Standardizer.fit(y[train])

    net = nn.Sequential(
        nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
    )
    model = tr.TAGI(net, tr.likelihoods.Normal())  # the noise is inferred
    model.fit(inputs.transform(x[train]), targets.transform(y[train]), epochs=20, calibrate=True)

    test = model.predict(inputs.transform(x[held_out]))
    test = test.rescaled(targets.mean.float(), targets.scale.float())
    noise = test.aleatoric.mean().sqrt().item()
    rmse = metrics.rmse(test, y[held_out])
    covered = metrics.coverage(test, y[held_out], 0.9)
    print(f"test RMSE {rmse:.2f} (noise 1)")
    print(f"inferred noise {noise:.2f}")
    print(f"coverage of the 90 % intervals {covered:.1%}")

    assert 0.95 < rmse < 1.4, "close to the noise level and not below it"
    assert 0.9 < noise < 1.4
    assert 0.86 < covered < 0.95


if __name__ == "__main__":
    main()
