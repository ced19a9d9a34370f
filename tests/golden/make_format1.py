"""Model files of format 1, written by version 0.1.0 (commit 0215cad), and what they predict.

Not to be run again: the files stand for those that users have.  It is kept to show how they came
about; ``tests/persistence/test_format1.py`` loads them.
"""

import contextlib
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

import tractable as tr
from tractable import agents
from tractable import sklearn as estimators

HERE = Path(__file__).parent / "format1"


def data(rows=60):
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(rows, 2, generator=generator) - 1
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * torch.randn(rows, generator=generator)
    return x, y, (y > 0).long() + (y > 0.5).long()


def net(outputs=1, *extra):
    return nn.Sequential(nn.Linear(2, 8), *extra, nn.ReLU(), nn.Linear(8, outputs))


def learners():
    like = tr.likelihoods
    _, y, labels = data()
    yield "tagi", tr.TAGI(net(), like.Normal()), y
    yield "tagi_norm", tr.TAGI(net(1, nn.BatchNorm1d(8)), like.Normal(0.1)), y
    yield "tagi_classes", tr.TAGI(net(2), like.Categorical(3)), labels
    yield "tagi_float64", tr.TAGI(net(), like.Normal(0.1), dtype=torch.float64), y
    yield "bbb", tr.BayesByBackprop(net(), like.Normal(), draws=5, lr=1e-2), y
    mixture = tr.priors.ScaleMixture(0.5, 1.0, 0.05)
    yield "bbb_mixture", tr.BayesByBackprop(net(3), like.Softmax(3), prior=mixture, draws=5), labels
    yield "backprop", tr.Backprop(net(), like.Normal(), prior=tr.priors.Laplace(1.0)), y
    drop = tr.Backprop(net(1, nn.Dropout(0.2)), like.Normal(0.1), mc_dropout=True, draws=5)
    yield "dropout", drop, y
    yield "ensemble", tr.Ensemble(net(), like.Normal(), n=2), y
    yield "ensemble_tagi", tr.Ensemble(net(), like.Normal(), n=2, learner=tr.TAGI), y


def numbers(tensor):
    return {"shape": list(tensor.shape), "bytes": tensor.contiguous().numpy().tobytes().hex()}


def run():
    expected = {}
    x, y, labels = data()
    for name, model, targets in learners():
        model.fit(x, targets, epochs=2, batch_size=16)
        model.save(HERE / f"{name}.tr")
        found = model.predict(x[:5])
        expected[name] = {"mean": numbers(found.mean), "variance": numbers(found.variance)}
        model.update(x[:2], targets[:2])
        expected[name]["updated"] = numbers(model.predict(x[:5]).mean)

    def kill(learner, record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    model = tr.TAGI(net(), tr.likelihoods.Normal(), seed=5)
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(x, y, epochs=4, callbacks=[tr.Checkpoint(HERE / "checkpoint.tr"), kill])
    whole = tr.TAGI(net(), tr.likelihoods.Normal(), seed=5).fit(x, y, epochs=4)
    expected["checkpoint"] = {"mean": numbers(whole.predict(x[:5]).mean)}

    regressor = estimators.TAGIRegressor((8,), random_state=0).fit(x.numpy(), y.numpy())
    regressor.save(HERE / "regressor.tr")
    expected["regressor"] = {"mean": numbers(torch.from_numpy(regressor.predict(x[:5].numpy())))}
    words = np.array(["a", "bb", "ccc"])[labels.numpy()]
    classifier = estimators.BBBClassifier((8,), epochs=2, draws=5, random_state=0)
    classifier.fit(x.numpy(), words).save(HERE / "classifier.tr")
    found = torch.from_numpy(classifier.predict_proba(x[:5].numpy()))
    expected["classifier"] = {"mean": numbers(found)}

    for name, learner in [
        ("bandit_tagi", tr.TAGI(nn.Linear(4, 1), tr.likelihoods.Normal(0.3))),
        ("bandit_bbb", tr.BayesByBackprop(nn.Linear(4, 1), tr.likelihoods.Normal(), draws=3)),
    ]:
        agent = agents.Bandit(learner, features=2, actions=2)
        for context, reward in zip(x[:20].tolist(), y[:20].tolist(), strict=True):
            agent.learn(context, agent.act(context), reward)
        agent.save(HERE / f"{name}.tr")
        expected[name] = {"actions": [agent.act(row) for row in x[:10].tolist()]}

    control = agents.TAGIControl(
        "Pendulum-v1", seed=1, policy_hidden=(8,), value_hidden=(8, 8), horizon=32, batch_size=16
    )
    control.learn(64).save(HERE / "control.tr")
    control.learn(32)
    expected["control"] = {"steps": control.steps, "action": control.predict(
        np.array([1.0, 0.0, 0.0]), deterministic=True)[0].tolist()}  # fmt: skip
    (HERE / "expected.json").write_text(json.dumps(expected))


def run_rehearsing():
    """Bandits amid the statistics of their noise, which format 1 keeps in a place of their own."""
    expected = json.loads((HERE / "expected.json").read_text())
    x, y, _ = data()
    for name, learner in [
        ("bandit_statistics", tr.BayesByBackprop(nn.Linear(4, 1), tr.likelihoods.Normal())),
        ("bandit_ensemble", tr.Ensemble(nn.Linear(4, 1), tr.likelihoods.Normal(), n=2)),
    ]:
        agent = agents.Bandit(learner, features=2, actions=2, replay=agents.Replay(batch_size=4))
        steps = list(zip(x.tolist(), y.tolist(), strict=True))
        for context, reward in steps[:21]:
            agent.learn(context, agent.act(context), reward)
        agent.save(HERE / f"{name}.tr")
        for context, reward in steps[21:41]:
            agent.learn(context, agent.act(context), reward)
        rows = torch.cat([x[:5], torch.eye(2)[torch.ones(5, dtype=torch.long)]], dim=1)
        expected[name] = {
            "actions": [agent.act(row) for row in x[:10].tolist()],
            "mean": numbers(agent.learner.predict(rows).mean),
            "variance": numbers(agent.learner.predict(rows).variance),
        }
    (HERE / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    torch.set_num_threads(1)
    run()
    run_rehearsing()
