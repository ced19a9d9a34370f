"""Black-box optimization of an expensive function with thirty evaluations.

The function is Hartmann's function of three variables, with known minimum. The baseline is random
search.

    python examples/07_optimisation.py
"""

import numpy as np
import torch

import tractable as tr

MINIMUM = -3.86278
CALLS = 30


def hartmann(x: np.ndarray) -> float:
    """Return the value of the Hartmann-3 function."""
    heights = np.array([1.0, 1.2, 3.0, 3.2])
    widths = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
    places = np.array(
        [
            [0.3689, 0.1170, 0.2673],
            [0.4699, 0.4387, 0.7470],
            [0.1091, 0.8732, 0.5547],
            [0.0381, 0.5743, 0.8828],
        ]
    )
    return float(-heights @ np.exp(-(widths * (x - places) ** 2).sum(1)))


def main() -> None:
    """Run two searches and compare each with random search."""
    torch.set_num_threads(1)
    ours, chance = [], []
    for seed in range(2):
        search = tr.infer.BlackBoxOptimizer([(0, 1)] * 3, seed=seed)
        for _ in range(CALLS):
            x = search.ask()
            search.tell(x, hartmann(x))
        rng = np.random.default_rng(seed)
        ours.append(search.best_value)
        chance.append(min(hartmann(rng.uniform(size=3)) for _ in range(CALLS)))
        where = ", ".join(f"{value:.2f}" for value in search.best_point)
        print(f"seed {seed}: {ours[-1]:.3f} at ({where}); random search {chance[-1]:.3f}")
    print(f"true minimum {MINIMUM:.3f}")

    assert min(ours) >= MINIMUM - 1e-4
    assert max(ours) < -3.0
    assert np.mean(ours) < np.mean(chance)


if __name__ == "__main__":
    main()
