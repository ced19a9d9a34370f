"""A run that writes checkpoints and resumes from them, to be killed: see ``kills``.

``python -m tests.soak.killed KIND FILE`` writes dots while it runs, and at its end a digest of
what was learnt.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import tractable as tr
from tractable.learners import Checkpoint
from tractable.testing.learners import regression

EPOCHS, STEPS, HORIZONS = 40, 400, 20


def digest(tensors: dict[str, torch.Tensor]) -> str:
    seen = hashlib.sha256()
    for name in sorted(tensors):
        seen.update(name.encode() + tensors[name].detach().numpy().tobytes())
    return seen.hexdigest()


def alive(*_: Any) -> None:
    sys.stdout.write(".\n")
    sys.stdout.flush()


def net(*extra: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 8), *extra, nn.ReLU(), nn.Linear(8, 1))


def fit(model: Any, path: Path) -> str:
    x, y = regression()
    model.fit(
        x, y, epochs=EPOCHS, batch_size=8, callbacks=[Checkpoint(path), alive], resume=path,
        progress=False,
    )  # fmt: skip
    return digest(model.state_dict())


def tagi(path: Path) -> str:
    return fit(tr.TAGI(net(), tr.likelihoods.Normal(), seed=3), path)


def norm(path: Path) -> str:
    return fit(tr.TAGI(net(nn.BatchNorm1d(8)), tr.likelihoods.Normal(0.1), seed=3), path)


def bbb(path: Path) -> str:
    return fit(tr.BayesByBackprop(net(), tr.likelihoods.Normal(), n_weight_samples=3, seed=3), path)


def ensemble(path: Path) -> str:
    return fit(tr.Ensemble(net(), tr.likelihoods.Normal(), n_estimators=3, seed=3), path)


def bandit(path: Path) -> str:
    from tests.agents.toss import Toss, agent

    held = agent("bbb")
    held.learn(
        Toss(7), STEPS, seed=3, progress=False, checkpoint=path, checkpoint_every=10, callback=alive
    )
    steps = held.history.state()
    steps.pop("seconds")
    return digest(held.learner.state_dict() | steps)


def control(path: Path) -> str:
    from tractable import agents

    options: dict[str, Any] = {
        "policy_hidden_layer_sizes": (8,),
        "value_hidden_layer_sizes": (8,),
        "n_steps": 32,
    }
    held = agents.TAGIControl("Pendulum-v1", seed=1, **options)
    if path.is_file():
        held = agents.TAGIControl.load(path)
    left = HORIZONS * 32 - held.steps
    if left > 0:
        held.learn(left, callback=alive, checkpoint=path, checkpoint_every=1)
    return digest(held.policy_learner.state_dict() | {"value": held.value_learner.posterior.loc})


KINDS = {run.__name__: run for run in (tagi, norm, bbb, ensemble, bandit, control)}


def main() -> None:
    torch.set_num_threads(1)
    kind, path = sys.argv[1:]
    found = KINDS[kind](Path(path))
    sys.stdout.write(f"done {found}\n")


if __name__ == "__main__":
    main()
