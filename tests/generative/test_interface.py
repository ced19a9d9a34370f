"""What every model of rows shares: units, held-out rows, novelty, files, refusals."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from tractable.errors import InvalidInput, InvalidModelFile, NotFitted, Unsupported
from tractable.generative import DiscreteColumnsWarning, GaussianMixture, GenerativeModel
from tractable.generative.predictive import Density
from tractable.persistence import model_file


class Independent(Density):
    """Independent normals; a context moves all means by its first column."""

    def __init__(self, mean: Tensor, std: Tensor, context: Tensor | None):
        self.mean, self.std, self.context = mean, std, context

    def log_prob(self, z):
        shift = 0.0 if self.context is None else self.context[:, :1]
        return torch.distributions.Normal(self.mean + shift, self.std).log_prob(z).sum(-1)

    def sample(self, n_samples, generator):
        mean = self.mean
        if self.context is not None:
            mean = mean + self.context[:, :1]
        noise = torch.randn(n_samples, *mean.shape, generator=generator, dtype=mean.dtype)
        return mean + self.std * noise


class Normals(GenerativeModel):
    def __init__(self, power: float = 1.0, **common):
        super().__init__(**common)
        self.power = power

    def _fit(self, x, context, *, progress, fail=False):
        if fail:
            raise ArithmeticError("failed on purpose")
        self.rows = len(x)
        rest = x if context is None else x - context[:, :1]
        self.mean, self.std = rest.mean(0), rest.std(0, correction=0)

    def _density(self, context):
        return Independent(self.mean, self.std, context)

    def config(self):
        return {"power": self.power}

    def pack(self):
        return {"mean": self.mean, "std": self.std}, {"rows": self.rows}

    def unpack(self, path: Path, tensors, header, net: nn.Module | None):
        self.mean, self.std, self.rows = tensors["mean"], tensors["std"], header["rows"]


def table(rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 3)) * [1.0, 100.0, 1e-3] + [0.0, 5.0, 7.0]


def test_log_prob_is_in_the_units_of_the_data():
    x = table()
    p = Normals(dtype=torch.float64, validation_fraction=0).fit(x).predict()
    exact = stats.norm(x.mean(0), x.std(0)).logpdf(x[:50]).sum(1)
    np.testing.assert_allclose(p.log_prob(x[:50]).numpy(), exact, rtol=0, atol=1e-9)
    drawn = p.sample(20_000).numpy()
    se = x.std(0) / math.sqrt(20_000)
    assert (np.abs(drawn.mean(0) - x.mean(0)) < 4 * se).all()


def test_models_without_density_have_no_novelty(monkeypatch):
    p = Normals(validation_fraction=0.3).fit(table()).predict()
    _ = p.novelty_share(table(3))
    monkeypatch.setattr(p.density, "log_prob", lambda z: torch.full((len(z),), math.nan))
    assert bool(p.novelty_share(table(3)).isnan().all())


def test_novelty_is_evenly_spread_for_rows_of_the_same_kind_and_high_for_others():
    model = Normals(validation_fraction=0.25).fit(table())
    p = model.predict()
    assert model.rows == 1500
    found = p.novelty_share(table(3000, seed=1)).numpy()
    # 500 held-out rows set the scale: two samples of the same distribution.
    assert stats.ks_2samp(found, np.linspace(0, 1, 501)).pvalue > 1e-3
    assert float(p.novelty_share([[6.0, 5.0, 7.0]])) == 1.0
    assert float(p.novelty_share([[0.0, 5.0, 7.0]])) < 0.02
    with pytest.raises(Unsupported, match="validation_fraction above 0"):
        Normals(validation_fraction=0).fit(table()).predict().novelty_share(table(3))


def test_context_conditions_row_by_row():
    rng = np.random.default_rng(0)
    context = rng.standard_normal((500, 1))
    x = context + 0.1 * rng.standard_normal((500, 2))
    model = Normals(standardize=False, validation_fraction=0).fit(x, context)
    p = model.predict([[-1.0], [2.0]])
    assert p.sample(7).shape == (7, 2, 2)
    assert torch.allclose(p.sample(2000).mean((0, 2)), torch.tensor([-1.0, 2.0]), atol=0.02)
    both = p.log_prob([[-1.0, -1.0], [2.0, 2.0]])
    assert (both > p.log_prob([[2.0, 2.0], [-1.0, -1.0]]) + 100).all()
    assert model.predict([[2.0]]).log_prob(np.zeros((5, 2))).shape == (5,)
    with pytest.raises(InvalidInput, match="3 rows and 2 contexts"):
        p.log_prob(np.zeros((3, 2)))
    with pytest.raises(InvalidInput, match="with a context: use"):
        model.predict()
    with pytest.raises(InvalidInput, match="without a context"):
        Normals().fit(x).predict(context)


def test_constant_columns_are_kept_as_they_are():
    x = np.column_stack([table(), np.full(2000, 4.5)])
    p = Normals(validation_fraction=0, dtype=torch.float64).fit(x).predict()
    plain = Normals(validation_fraction=0, dtype=torch.float64).fit(x[:, :3]).predict()
    assert torch.equal(p.log_prob(x[:9]), plain.log_prob(x[:9, :3]))
    assert (p.sample(5)[:, 3] == 4.5).all()
    x[0, 3] = 4.6
    assert p.log_prob(x[:2])[0] == -math.inf
    with pytest.raises(InvalidInput, match="every column is constant"):
        Normals().fit(np.ones((10, 2)))


def test_copies_and_discrete_columns():
    x = table()
    with pytest.raises(InvalidInput, match="columns 0 and 3 are copies"):
        Normals().fit(np.column_stack([x, 3 - 2 * x[:, 0]]))
    levels = np.column_stack([x, np.random.default_rng(1).integers(0, 4, 2000) * 0.5])
    with pytest.warns(DiscreteColumnsWarning, match=r"columns \[3\]"):
        Normals().fit(levels)
    model = Normals(dequantize=True, validation_fraction=0, dtype=torch.float64).fit(levels)
    # Spread over a step of 0.5: the variance grows by 0.5² / 12.
    wider = float(model.std[3] * model.scaler_.units.scale[3]) ** 2
    assert wider == pytest.approx(levels[:, 3].var() + 0.25 / 12, rel=0.02)
    assert set(np.unique(model.predict().sample(500)[:, 3])) == {0.0, 0.5, 1.0, 1.5}


@pytest.mark.parametrize("context", [False, True])
def test_files(tmp_path, context):
    x = table()
    data = (x, x[:, :1]) if context else (x,)
    model = Normals(2.0, dtype=torch.float64, seed=3).fit(*data)
    model.save(tmp_path / "m.tr")
    again = GenerativeModel.load(tmp_path / "m.tr")
    given = x[:5, :1] if context else None
    assert type(again) is Normals
    assert again.power == 2.0
    assert torch.equal(again.predict(given).log_prob(x[:5]), model.predict(given).log_prob(x[:5]))
    assert torch.equal(
        again.predict(given).novelty_share(x[:5]), model.predict(given).novelty_share(x[:5])
    )
    assert torch.equal(again.predict(given).sample(4), model.predict(given).sample(4))
    data = bytearray((tmp_path / "m.tr").read_bytes())
    data[-9] ^= 1
    (tmp_path / "bad.tr").write_bytes(bytes(data))
    with pytest.raises(InvalidModelFile):
        GenerativeModel.load(tmp_path / "bad.tr")


def test_bad_input_changes_nothing():
    model = Normals()
    with pytest.raises(NotFitted):
        model.predict()
    with pytest.raises(NotFitted):
        model.save("nowhere.tr")
    model.fit(table())
    before = model.predict().log_prob(table(5))
    holes = table()
    holes[7, 1] = np.nan
    for bad, words in [
        ((holes,), "row 7, column 1"),
        ((table(3),), "at least 5 rows"),
        ((table(6), table(5)), "6 rows and 5 contexts"),
        ((np.zeros((0, 3)),), "at least one row"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            model.fit(*bad)
    with pytest.raises(ArithmeticError):
        model.fit(table(seed=9), fail=True)
    with pytest.raises(TypeError, match="positional arguments"):
        model.fit(1, 2, 3)
    assert torch.equal(model.predict().log_prob(table(5)), before)
    p = model.predict()
    with pytest.raises(InvalidInput, match="have 2 columns, and the model has 3"):
        p.log_prob(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="whole number from 1"):
        p.sample(0)
    with pytest.raises(ValueError, match="validation_fraction"):
        Normals(validation_fraction=1.0)


def test_validation_rows_before_a_fit_are_refused():
    with pytest.raises(NotFitted, match="not fitted yet: call fit first"):
        Normals().validation_rows(table(10))


@pytest.mark.parametrize("seed", [-(10**30), 2**64])
def test_a_file_with_a_seed_that_no_generator_takes_is_refused(seed, tmp_path):
    model = GaussianMixture(n_components=1).fit(np.random.default_rng(0).normal(size=(50, 3)))
    model.save(tmp_path / "model.tr")
    tensors, header = model_file.read(tmp_path / "model.tr")
    header["generative"]["common"]["seed"] = seed
    model_file.write(tmp_path / "model.tr", tensors, header)
    with pytest.raises(InvalidModelFile, match="seed in the file must be an integer of 64 bits"):
        GaussianMixture.load(tmp_path / "model.tr")
