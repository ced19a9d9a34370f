"""The training loop of TAGI: inputs, records, reproducibility and resuming."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tractable as tr
from tractable.learners import InvalidModelFile
from tractable.learners.methods.tagi.engines import compiled


def data(rows: int = 60, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 2, generator=generator)
    return x, x[:, 0] - 0.5 * x[:, 1] + 0.1 * torch.randn(rows, generator=generator)


def model(engine: str = "torch", **options) -> tr.TAGI:
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    return tr.TAGI(net, tr.likelihoods.Normal(), engine=engine, **options)


def state(learner: tr.TAGI) -> torch.Tensor:
    noise = learner.likelihood.noise_mean.to(learner.posterior.loc)
    return torch.cat([learner.posterior.loc, learner.posterior.variance, noise])


class Killed(Exception):
    pass


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_resuming_an_interrupted_fit_is_bit_for_bit_identical(tmp_path, engine):
    x, y = data()
    straight = model(engine).fit(x, y, epochs=6, batch_size=7, calibrate=True)
    path = tmp_path / "run.safetensors"

    def kill(learner, record):
        if record["epoch"] == 3:
            raise Killed

    with pytest.raises(Killed):
        model(engine).fit(
            x, y, epochs=6, batch_size=7, calibrate=True, callbacks=[tr.Checkpoint(path), kill]
        )
    resumed = model(engine)
    resumed.fit(x, y, epochs=6, batch_size=7, calibrate=True, resume=path)
    assert torch.equal(state(resumed), state(straight))
    assert [r["epoch"] for r in resumed.history] == [1, 2, 3, 4, 5, 6]


def test_resuming_another_run_is_refused(tmp_path):
    x, y = data()
    path = tmp_path / "run.safetensors"
    model().fit(x, y, epochs=2, callbacks=[tr.Checkpoint(path)])
    with pytest.raises(ValueError, match="epochs = 2, this one has 5"):
        model().fit(x, y, epochs=5, resume=path)


def test_results_are_reproducible_by_seed():
    x, y = data()
    first, second = (model(seed=3).fit(x, y, epochs=3) for _ in range(2))
    assert torch.equal(state(first), state(second))
    assert not torch.equal(state(first), state(model(seed=4).fit(x, y, epochs=3)))


def test_arrays_tensors_and_loaders_are_the_same_data():
    x, y = data()
    by_tensor = model().fit(x, y, epochs=2, batch_size=10, shuffle=False)
    by_array = model().fit(
        x.numpy(), y.numpy().astype(np.float64), epochs=2, batch_size=10, shuffle=False
    )
    loader = DataLoader(TensorDataset(x, y), batch_size=10)
    by_loader = model().fit(loader, epochs=2)
    torch.testing.assert_close(state(by_tensor), state(by_array))
    torch.testing.assert_close(state(by_tensor), state(by_loader))


def test_a_permuted_batch_changes_nothing():
    x, y = data(20)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    one, other = model(dtype=torch.float64), model(dtype=torch.float64)
    one.update(x, y)
    other.update(x[order], y[order])
    torch.testing.assert_close(state(one), state(other), rtol=1e-12, atol=1e-13)


def test_compiled_steps_equal_eager_ones():
    x, y = data(24)
    eager = model(dtype=torch.float64).fit(x, y, epochs=2, batch_size=10)
    learner = model(dtype=torch.float64, compile=True).fit(x, y, epochs=2, batch_size=10)
    torch.testing.assert_close(state(eager), state(learner), rtol=1e-10, atol=1e-12)


def test_a_rare_shape_of_batch_is_not_compiled(monkeypatch):
    made = []
    monkeypatch.setattr(torch, "compile", lambda graph, **options: made.append(1) or graph)
    monkeypatch.setattr(compiled, "_OFTEN", 3)
    x, y = data(24)
    eager = model(dtype=torch.float64).fit(x, y, epochs=4, batch_size=10)
    learner = model(dtype=torch.float64, compile=True).fit(x, y, epochs=2, batch_size=10)
    assert len(made) == 1  # ten rows; the last four of an epoch came twice
    learner = model(dtype=torch.float64, compile=True).fit(x, y, epochs=4, batch_size=10)
    assert len(made) == 3
    torch.testing.assert_close(state(eager), state(learner), rtol=1e-10, atol=1e-12)


def test_gaussian_inputs_flow_into_predictions_and_learning():
    x, y = data()
    # Without distances, the difference is the contribution of the input variance.
    learner = model().fit(x, y, epochs=5, distance_aware=False)
    certain = learner.predict(x)
    doubtful = learner.predict(tr.Gaussian(x, 0.5))
    torch.testing.assert_close(doubtful.mean, certain.mean)
    assert (doubtful.epistemic > 3 * certain.epistemic).all()
    sure, unsure = model(), model()
    sure.update(x, y)
    unsure.update(tr.Gaussian(x, 4.0), y)
    assert unsure.posterior.variance.sum() > sure.posterior.variance.sum()


def test_one_observation_with_and_without_the_batch_dimension():
    one, other = model(), model()
    one.update([0.3, -1.0], 0.7)
    other.update(torch.tensor([[0.3, -1.0]]), torch.tensor([0.7]))
    assert torch.equal(state(one), state(other))


def test_validation_early_stopping_and_history():
    x, y = data()
    noise = torch.randn(20, generator=torch.Generator().manual_seed(2))
    learner = model().fit(
        x, y, epochs=50, validation=(x[:20], 100 * noise), callbacks=[tr.EarlyStopping(patience=3)]
    )
    nll = [r["validation_nll"] for r in learner.history]
    assert 4 <= len(nll) < 50
    assert min(nll) == nll[-4]
    with pytest.raises(KeyError, match="give fit a validation set"):
        model().fit(x, y, epochs=2, callbacks=[tr.EarlyStopping()])


def test_predictions_follow_the_shape_of_the_targets():
    x, y = data()
    assert model().fit(x, y, epochs=1).predict(x).mean.shape == (60,)
    column = model().fit(x, y.unsqueeze(1), epochs=1).predict(x)
    assert column.mean.shape == (60, 1)
    assert column.log_prob(y.unsqueeze(1)).shape == (60,)
    with pytest.raises(ValueError, match="do not fit"):
        column.log_prob(y[:10])


def test_predicting_in_pieces_changes_nothing():
    x, y = data()
    learner = model().fit(x, y, epochs=2)
    torch.testing.assert_close(
        learner.predict(x, batch_size=7).mean, learner.predict(x).mean, rtol=1e-6, atol=1e-6
    )


def test_calibration_fits_the_noise_on_validation_rows():
    x, y = data(200)
    learner = model("native").fit(x, y, epochs=20, calibrate=True)
    fresh_x, fresh_y = data(2000, seed=9)
    low, high = learner.predict(fresh_x).interval(0.9)
    assert 0.8 < ((fresh_y > low) & (fresh_y < high)).float().mean() < 0.97
    with pytest.raises(ValueError, match="at least 20 rows"):
        model().fit(x[:10], y[:10], calibrate=True)


class Residual(nn.Module):
    """A custom module, which cannot be written to a file."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.out = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(x + torch.relu(self.inner(x)))


def test_save_and_load_change_nothing(tmp_path):
    x, y = data()
    learner = model().fit(x, y, epochs=2)
    path = tmp_path / "model.safetensors"
    learner.save(path)
    loaded = tr.TAGI.load(path)
    assert torch.equal(state(learner), state(loaded))
    assert torch.equal(learner.predict(x).mean, loaded.predict(x).mean)
    assert loaded.history == learner.history
    learner.update(x[:5], y[:5])
    loaded.update(x[:5], y[:5])
    assert torch.equal(state(learner), state(loaded))


def test_custom_modules_are_loaded_into_a_new_instance(tmp_path):
    x, y = data()
    learner = tr.TAGI(Residual(), tr.likelihoods.Normal(0.1)).fit(x, y, epochs=2)
    path = tmp_path / "model.safetensors"
    learner.save(path)
    with pytest.raises(ValueError, match=r"load\(path, net=...\)"):
        tr.TAGI.load(path)
    loaded = tr.TAGI.load(path, net=Residual())
    assert torch.equal(loaded.predict(x).mean, learner.predict(x).mean)
    with pytest.raises(InvalidModelFile, match="another network"):
        tr.TAGI.load(path, net=nn.Linear(2, 1))


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(FileNotFoundError, match="no model file"):
        tr.TAGI.load(path)
    model().save(path)
    whole = path.read_bytes()
    for piece in (whole[: len(whole) // 2], whole[:7], b"", b"PK\x03\x04 a zip file"):
        path.write_bytes(piece)
        with pytest.raises(InvalidModelFile):
            tr.TAGI.load(path)
    from safetensors.torch import save_file

    save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(InvalidModelFile, match="not one of tractable"):
        tr.TAGI.load(path)


def test_a_failed_save_keeps_the_existing_file(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    learner = model()
    learner.save(path)
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        learner.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize(
    ("likelihood", "outputs", "labels"),
    [
        (tr.likelihoods.Bernoulli(), 1, 2),
        (tr.likelihoods.Categorical(3), 2, 3),
        (tr.likelihoods.Categorical(3, link="probit"), 2, 3),
    ],
    ids=["bernoulli", "normal-link", "probit-link"],
)
def test_classes_are_learnt(likelihood, outputs, labels):
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, labels, (300,), generator=generator)
    centres = torch.tensor([[2.0, 0.0], [-2.0, 1.0], [0.0, -3.0]])
    x = centres[y] + 0.5 * torch.randn(300, 2, generator=generator)
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, outputs))
    p = tr.TAGI(net, likelihood, gain=1.0).fit(x, y, epochs=10).predict(x)
    assert (p.labels == y).float().mean() > 0.97
    torch.testing.assert_close(p.probs.sum(-1), torch.ones(300))
    assert -p.log_prob(y).mean() < 0.2
    assert p.sample(5).shape == (5, 300)
    with pytest.raises(TypeError, match="classes have no order"):
        p.interval(0.9)


def test_a_noise_that_depends_on_the_input_is_learnt():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(3000, 1, generator=generator) * 2 - 1
    noise = torch.where(x > 0, 0.5, 0.1)
    y = 0.5 * x + noise * torch.randn(3000, 1, generator=generator)
    net = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 2))
    learner = tr.TAGI(net, tr.likelihoods.HeteroscedasticNormal(), gain=1.0)
    p = learner.fit(x, y.flatten(), epochs=20, batch_size=16).predict(torch.tensor([[-0.6], [0.6]]))
    low, high = p.aleatoric.sqrt().tolist()
    assert low == pytest.approx(0.1, rel=0.35)
    assert high == pytest.approx(0.5, rel=0.35)
