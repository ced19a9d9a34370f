"""Running statistics after an epoch are those of the learned weights."""

import copy

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.learners.methods.tagi import batch_norm
from tractable.learners.methods.tagi.batch_norm import RecentBatches


def rows(n: int = 200, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=generator)
    return x, x[:, 0] * x[:, 1] + 0.1 * torch.randn(n, generator=generator)


def net() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(),
        nn.Linear(8, 8), nn.BatchNorm1d(8, momentum=0.01), nn.ReLU(), nn.Linear(8, 1),
    )  # fmt: skip


def model(made: nn.Module | None = None, **options) -> tr.TAGI:
    return tr.TAGI(made or net(), tr.likelihoods.Normal(0.3), dtype=torch.float64, **options)


def by_torch(learner: tr.TAGI, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the statistics of a plain module with the learned means, by torch's average."""
    plain = copy.deepcopy(learner.net).double()
    plain.load_state_dict(
        {n: g.loc for n, g in learner.posterior.gaussians().items()}, strict=False
    )
    for layer in plain:
        if isinstance(layer, nn.BatchNorm1d):
            layer.reset_running_stats()
            layer.momentum = None
    with torch.no_grad():
        plain.train()(x.double())
    return dict(plain.named_buffers())


def test_running_statistics_equal_those_of_a_network_with_the_learned_means():
    x, y = rows()
    learner = model().fit(x, y, epochs=3, batch_size=20)
    wanted = by_torch(learner, x)
    for name, found in learner.state.buffers.items():
        if "running" in name:
            torch.testing.assert_close(found, wanted[name], rtol=1e-10, atol=1e-12)


def test_batch_counts_and_momentum_are_unchanged():
    x, y = rows()
    learner = model().fit(x, y, epochs=3, batch_size=20)
    assert int(learner.state.buffers["1.num_batches_tracked"]) == 30
    assert [learner.method.network.module[k].momentum for k in (1, 4)] == [0.1, 0.01]


def test_an_online_update_moves_them_by_the_momentum():
    x, y = rows(20)
    learner = model()
    w, b = (learner.posterior.gaussians()[f"0.{name}"].loc.clone() for name in ("weight", "bias"))
    learner.update(x, y)
    mean = (x.double() @ w.T + b).mean(0)  # the first statistics are 0 and 1
    torch.testing.assert_close(learner.state.buffers["1.running_mean"], 0.1 * mean)


def test_learning_does_not_depend_on_running_statistics(monkeypatch):
    x, y = rows()
    one = model().fit(x, y, epochs=3, batch_size=20)
    monkeypatch.setattr(batch_norm, "_BATCH_SIZE", 50)
    other = model().fit(x, y, epochs=3, batch_size=20)
    assert torch.equal(one.posterior.loc, other.posterior.loc)
    assert not torch.equal(
        one.state.buffers["4.running_mean"], other.state.buffers["4.running_mean"]
    )


def test_a_resumed_fit_has_the_same_running_statistics(tmp_path):
    x, y = rows()
    whole = model().fit(x, y, epochs=4, batch_size=20)
    path = tmp_path / "half.tr"

    def kill(learner: tr.Learner, record: dict[str, float]) -> None:
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model().fit(x, y, epochs=4, batch_size=20, callbacks=[tr.Checkpoint(path), kill])
    resumed = model().fit(x, y, epochs=4, batch_size=20, resume=path)
    for name, buffer in whole.state.buffers.items():
        assert torch.equal(buffer, resumed.state.buffers[name])


@pytest.mark.parametrize("dropout", [False, True])
def test_ensembles_and_dropout_repeat_themselves(dropout):
    x, y = rows(60)
    made = net()
    if dropout:
        made.insert(3, nn.Dropout(0.2))
    found = [
        tr.Ensemble(
            copy.deepcopy(made), tr.likelihoods.Normal(0.3), n_estimators=2, learner=tr.TAGI
        )
        .fit(x, y, epochs=2, batch_size=20)
        .predict(x)
        for _ in "ab"
    ]
    assert torch.equal(found[0].mean, found[1].mean)


def test_several_and_uncertain_inputs_are_supported():
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net()

        def forward(self, a, b):
            return self.inner(torch.cat([a, b], 1))

    x, y = rows(60)
    learner = model(Joined()).fit((x[:, :1], x[:, 1:]), y, epochs=2, batch_size=20)
    assert torch.isfinite(learner.predict((x[:, :1], x[:, 1:])).mean).all()
    doubtful = model().fit(tr.Gaussian(x, 0.01), y, epochs=2, batch_size=20)
    assert torch.isfinite(doubtful.predict(x).mean).all()


def test_number_of_stored_rows_is_limited():
    recent = RecentBatches()
    for k in range(100):
        recent.add(torch.full((100, 2), float(k)))
    kept = torch.cat(recent.large())
    assert 4096 <= len(kept) < 4096 + 100
    assert kept[-1, 0] == 99
    wide = RecentBatches()
    for _ in range(40):
        wide.add(torch.zeros(1, 1).expand(10, 1 << 18))
    assert wide.rows == sum(map(len, wide.batches)) == 70  # 64 rows are 2 ** 24 numbers
    assert {len(part) for part in recent.large()} <= {455, 456}


def test_batches_of_unlike_rows_are_not_joined():
    recent = RecentBatches()
    recent.add(torch.zeros(4, 3))
    recent.add(torch.zeros(4, 5))
    assert [tuple(x.shape) for x in recent.large()] == [(4, 3), (4, 5)]
