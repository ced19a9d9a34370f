"""A custom module with residual connections, used unchanged by two learners.

The module calls ordinary torch functions. Each of them has a moment rule for Gaussian tensors.

    python examples/04_residual_module.py
"""

import torch
from torch import Tensor, nn

import tractable as tr
from tractable import metrics


class Block(nn.Module):
    """``x + W2 relu(W1 x)``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` plus the output of the two layers."""
        return x + self.outer(torch.relu(self.inner(x)))


class Residual(nn.Module):
    """Two blocks between an input layer and a normalized output layer."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return one number per row."""
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x))


def main() -> None:
    """Fit the module in closed form and by gradients, then infer a hidden state."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(500, 2, generator=generator) - 1
    y = torch.sin(3 * x[:, 0]) * x[:, 1] + 0.05 * torch.randn(500, generator=generator)
    x_test, y_test, x, y = x[300:], y[300:], x[:300], y[:300]

    net = Residual(2, 16)
    closed = tr.TAGI(net, tr.likelihoods.Normal(0.05), gain=1.0)
    closed.fit(x, y, epochs=15, batch_size=15)
    plain = tr.Backprop(net, tr.likelihoods.Normal(0.05), lr=1e-2)
    plain.fit(x, y, epochs=15, batch_size=15)
    spread = float(y_test.std())
    for name, learner in {"TAGI": closed, "Backprop": plain}.items():
        rmse = metrics.rmse(learner.predict(x_test), y_test)
        print(f"{name:8}  test RMSE {rmse:.3f} (std of the targets {spread:.2f}, noise 0.05)")
        assert rmse < 0.5 * spread

    states = tr.infer.states(closed, x_test[:5], y_test[:5], at=["blocks.0", "last"])
    block, last = states["blocks.0"], states["last"]
    print(f"posterior of the first block's output: shape {tuple(block.shape)}")
    before = (closed.predict(x_test[:5]).mean - y_test[:5]).abs().mean()
    after = (last.loc.flatten() - y_test[:5]).abs().mean()
    print(
        f"mean absolute error of the output: {before:.3f} before the observation, {after:.3f} after"
    )
    assert bool((block.variance >= 0).all())
    assert after <= before


if __name__ == "__main__":
    main()
