"""An inverse problem: the joint angles of a robot arm for a given position of the hand.

The network learns the forward map from two joint angles to the position of the hand, which is
easy to simulate. ``infer.invert`` then infers the angles from an observed position.

    python examples/06_inverse_problem.py
"""

import torch
from torch import Tensor, nn

import tractable as tr

UPPER, LOWER = 0.6, 0.5  # lengths of the arm


def hand(angles: Tensor) -> Tensor:
    """Return the position of the hand of a two-link arm."""
    shoulder, elbow = angles[:, 0], angles[:, 0] + angles[:, 1]
    return torch.stack(
        [
            UPPER * shoulder.cos() + LOWER * elbow.cos(),
            UPPER * shoulder.sin() + LOWER * elbow.sin(),
        ],
        dim=1,
    )


def main() -> None:
    """Learn the forward map, invert it, and check the result with the true geometry."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    middle, reach = torch.tensor([0.6, 1.2]), torch.tensor([0.8, 0.8])
    angles = middle + reach * (2 * torch.rand(3000, 2, generator=generator) - 1)
    x = (angles - middle) / reach
    net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.02), gain=1.0).fit(x, hand(angles), epochs=40)

    chosen = middle + 0.7 * reach * (2 * torch.rand(50, 2, generator=generator) - 1)
    targets = hand(chosen)
    found = tr.infer.invert(
        model, targets, prior=torch.zeros(50, 2), input_std=1.0, steps=300, tolerance=0.005
    )
    reached = hand(middle + reach * found.input.loc)
    miss = (reached - targets).norm(dim=1)
    start = (hand(middle.expand(50, 2)) - targets).norm(dim=1)
    print(f"{int(found.converged.sum())} of 50 converged")
    print(f"distance to the target: mean {miss.mean():.3f}, maximum {miss.max():.3f}")
    print(f"mean distance from the initial position: {start.mean():.3f}")

    assert bool(found.converged.all())
    assert miss.mean() < 0.03
    assert miss.max() < 0.1


if __name__ == "__main__":
    main()
