"""Distances to training rows, slopes and extra variance, compared with their definitions."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tractable as tr
from tractable import native
from tractable.errors import InvalidModelFile
from tractable.gaussian import Gaussian
from tractable.learners import Learner
from tractable.learners.off_data import support
from tractable.learners.off_data.neighbors import DistanceLimits, NearestDistances
from tractable.learners.off_data.support import TrainingSupport
from tractable.persistence import model_file


def normal_rows(rows=200, columns=5, seed=0, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    scale = torch.logspace(-2, 3, columns, dtype=dtype)
    return 7 + scale * torch.randn(rows, columns, generator=draw, dtype=dtype)


def by_definition(x, kept, skip=0):
    """Return the RMS of the three smallest Euclidean distances, in standard deviations."""
    center, scale = kept.mean(0), kept.std(0)
    between = np.sort(cdist((x - center) / scale, (kept - center) / scale), axis=1)
    return np.sqrt((between[:, skip : skip + 3] ** 2).mean(1))


@pytest.mark.parametrize(
    ("columns", "dtype", "close"),
    [(1, torch.float64, 1e-7), (5, torch.float64, 1e-9), (5, torch.float32, 1e-4),
     (40, torch.float64, 1e-9), (40, torch.float32, 1e-4)],
)  # fmt: skip
def test_distances_and_reach_are_those_of_the_definition(columns, dtype, close):
    kept = normal_rows(columns=columns, dtype=dtype)
    x = normal_rows(3000, columns, seed=1, dtype=dtype) * 1.5  # more than one chunk
    found = TrainingSupport.from_rows(kept)
    among = by_definition(kept.double().numpy(), kept.double().numpy(), skip=1)
    radius = np.quantile(among, 0.9, method="higher")
    assert float(found.radius) == pytest.approx(radius, rel=100 * close)
    expected = np.maximum(by_definition(x.double().numpy(), kept.double().numpy()) - radius, 0)
    novelty = found.novelty(x)
    assert novelty.dtype == dtype
    np.testing.assert_allclose(novelty.numpy(), expected, atol=100 * close, rtol=10 * close)


def test_ninety_percent_of_training_rows_get_no_extra_variance():
    kept, new = normal_rows(1000), normal_rows(4000, seed=1)
    share = float((TrainingSupport.from_rows(kept).novelty(new) == 0).double().mean())
    assert share == pytest.approx(0.9, abs=0.03)


def test_columns_that_do_not_vary_are_ignored():
    x = normal_rows(50, 3)
    with_constant = torch.cat([x, torch.full((50, 1), 0.1, dtype=x.dtype)], 1)
    elsewhere = with_constant * torch.tensor([2.0, 1.0, 1.0, 1e6], dtype=x.dtype)
    plain = TrainingSupport.from_rows(x).novelty(elsewhere[:, :3])
    assert torch.equal(TrainingSupport.from_rows(with_constant).novelty(elsewhere), plain)


@pytest.mark.parametrize("x", [torch.ones(1, 2), torch.ones(20, 2), torch.full((3, 1), 1e30)])
def test_rows_without_a_scale_have_no_support(x):
    assert TrainingSupport.from_rows(x) is None


def test_duplicates_and_few_rows_are_supported():
    twice = TrainingSupport.from_rows(torch.tensor([[0.0], [0.0], [1.0]]))
    assert torch.isfinite(twice.novelty(torch.tensor([[0.0], [5.0]]))).all()
    two = TrainingSupport.from_rows(
        torch.tensor([[0.0], [2.0]])
    )  # in units of one from 1: -1 and 1
    assert float(two.radius) == pytest.approx(2.0)
    farther = two.novelty(torch.tensor([[6.0]]))  # 4 and 6 from the two
    assert float(farther) == pytest.approx(math.sqrt((16 + 36) / 2) - 2)


def test_rows_far_beyond_single_precision_are_finite():
    kept = TrainingSupport.from_rows(normal_rows(dtype=torch.float32))
    novelty = kept.novelty(torch.full((2, 5), 3e38))
    assert torch.isfinite(novelty).all()
    assert torch.isfinite(novelty * novelty).all()
    assert (novelty > 1e9).all()


# --- slopes --------------------------------------------------------------------------------


def test_the_slope_of_a_linear_function_of_one_column_is_exact():
    x = normal_rows(columns=1)
    found = TrainingSupport.from_rows(x).with_slope(
        lambda rows: torch.cat([3 * rows, 0 * rows], 1), seed=0
    )
    assert found.slope.tolist() == pytest.approx([9 * float(x.var(correction=0)), 0], rel=1e-6)


@pytest.mark.parametrize("columns", [3, 20])
def test_the_slope_is_the_mean_over_columns_and_rows(columns):
    """Compare with autograd on a nonlinear function; random directions give a few percent error."""
    x = normal_rows(1000, columns)
    spread = x.std(0, correction=0)

    def bent(rows):
        z = (rows - 7) / spread
        return (z[:, :2].square().sum(1, keepdim=True) + z.sum(1, keepdim=True)) / columns

    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(bent(leaf).sum(), leaf)
    expected = float((gradient * spread).square().mean())
    found = TrainingSupport.from_rows(x).with_slope(bent, seed=0)
    assert float(found.slope) == pytest.approx(expected, rel=0.12)


def test_the_slope_of_a_learner_is_that_of_its_mean():
    x = normal_rows(300, 3, dtype=torch.float32) / 100
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1), engine="torch")
    model.fit(x, torch.stack([x[:, 0].sin(), x.sum(1)], 1), epochs=5)
    leaf = x.clone().requires_grad_()
    z = model.propagate(leaf)
    none = torch.zeros_like(z.variance)
    rows = [
        torch.autograd.grad([z.loc, z.variance], leaf, [one, none], retain_graph=True)[0]
        for one in torch.eye(2).unsqueeze(1).expand(2, 300, 2)
    ]
    spread = x.std(0, correction=0)
    expected = [float((g * spread).square().mean()) for g in rows]
    assert model.off_data.support.slope.tolist() == pytest.approx(expected, rel=0.12)


def test_extra_variance_is_the_slope_times_the_square():
    rows = normal_rows(columns=1)
    found = TrainingSupport.from_rows(rows).with_slope(lambda x: 2 * x, seed=0)
    far = rows.amax() + torch.tensor([[-1e-9], [3.0], [30.0]], dtype=torch.float64)
    novelty = found.novelty(far)
    assert novelty.tolist()[1:] > [2.0, 20.0]
    expected = float(found.slope) * novelty.square().unsqueeze(1)
    assert torch.allclose(found.distance(far).extra, expected, rtol=1e-5)


def test_a_gap_in_an_important_column_is_detected_among_irrelevant_ones():
    generator = torch.Generator().manual_seed(0)
    rows = torch.rand(600, 6, generator=generator, dtype=torch.float64) * 2 - 1
    rows = rows[rows[:, 0].abs() > 0.4]
    found = TrainingSupport.from_rows(rows).with_slope(lambda x: 3 * x[:, :1], seed=0)
    inside, gap = rows[:200].clone(), rows[:200].clone()
    gap[:, 0] = 0.0
    assert float((found.novelty(gap) > 0).double().mean()) < 0.5  # the others hide it
    extra = found.distance(gap).extra
    assert float((extra > 0.1).double().mean()) > 0.95  # the function may have changed by 3 * 0.4
    assert float(found.distance(inside).extra.mean()) < 0.05
    spread = rows.std(0, correction=0)
    wanted = [3 * float(spread[0]), 0, 0, 0, 0, 0]
    assert found.column_slopes.tolist() == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    # A factor on the growth is a factor on the variance.
    more = found.with_scaled_growth(4.0).distance(gap).extra
    assert torch.allclose(more, 4 * extra)


# --- stored rows --------------------------------------------------------------------------


def test_at_most_a_thousand_rows_are_kept_and_fewer_wide_ones():
    assert support.sample_rows(torch.zeros(5000, 3), 0).shape == (1000, 3)
    assert support.sample_rows(torch.zeros(50, 3), 0).shape == (50, 3)
    assert support.sample_rows(torch.zeros(5000, 3, 32, 32), 0).numel() <= support.MAX_NUMBERS


def test_the_rows_kept_depend_on_the_seed_alone():
    x = torch.arange(5000.0).unsqueeze(1)
    first, again, other = (support.sample_rows(x, seed) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len(first.unique()) == 1000


def one_column(rows=3000):
    x = torch.linspace(-1, 1, rows).unsqueeze(1)
    return x, torch.sin(4 * x)


def linear(**options):
    return tr.TAGI(nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1)),
                   tr.likelihoods.Normal(0.1), **options)  # fmt: skip


def test_rows_of_a_loader_are_stored_in_one_pass():
    x, y = one_column()
    reads = []

    class Counted(TensorDataset):
        def __getitem__(self, i):
            reads.append(i)
            return super().__getitem__(i)

    model = linear().fit(DataLoader(Counted(x, y), batch_size=64), epochs=2)
    assert len(reads) == 2 * 3000
    kept = model.off_data.support
    assert kept.rows.shape == (1000, 1)
    values = (kept.centre + kept.rows * kept.scale).flatten()
    assert len(values.unique()) == 1000
    # Drawn from all of the pass, not from its first or last batches.
    assert float(values.mean()) == pytest.approx(0, abs=0.08)
    assert float(values.std()) == pytest.approx(1 / math.sqrt(3), rel=0.08)
    assert float(model.predict(torch.tensor([[5.0]])).novelty) > 1


def test_storing_rows_does_not_change_learning():
    x, y = one_column(300)
    wide, plain = linear(seed=1), linear(seed=1)
    wide.fit(x, y, epochs=2)
    plain.fit(x, y, epochs=2, distance_aware=False)
    for model in (wide, plain):
        model.update(x[:2], y[:2]).fit(x, y, epochs=1, distance_aware=False)
    one, other = wide.state_dict(), plain.state_dict()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_integer_indices_have_no_distance():
    net = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(8, 1))
    x = torch.randint(10, (50, 2), generator=torch.Generator().manual_seed(0))
    model = tr.TAGI(net, tr.likelihoods.Normal(0.1)).fit(x, x.sum(1).float(), epochs=1)
    assert model.off_data.support is None
    assert model.predict(x).novelty is None


def test_uncertain_inputs_are_compared_by_their_means():
    x, y = one_column(100)
    model = linear().fit(Gaussian(x, torch.full_like(x, 0.01)), y, epochs=1)
    far = torch.tensor([[4.0]])
    same = model.predict(Gaussian(far, torch.full_like(far, 0.01))).novelty
    assert torch.equal(same, model.predict(far).novelty)


def test_rows_of_several_axes_are_compared_flat():
    x = torch.randn(80, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 1))
    model = tr.Backprop(net, tr.likelihoods.Normal(0.5)).fit(x, x.mean((1, 2, 3)), epochs=1)
    assert model.predict(5 * x).epistemic.mean() > model.predict(x).epistemic.mean()


def test_a_predicted_noise_stays_and_the_mean_has_the_extra_variance():
    x, y = one_column(300)
    net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 2))
    model = tr.TAGI(net, tr.likelihoods.HeteroscedasticNormal()).fit(x, y, epochs=3)
    assert model.off_data.support.slope.shape == (1,)
    far = torch.tensor([[9.0]])
    plain = model.outputs(far).predictive()
    p = model.predict(far)
    assert torch.equal(p.aleatoric, plain.aleatoric)
    extra = model.off_data.support.distance(far).extra
    assert torch.equal(p.epistemic, plain.epistemic + extra)
    assert float(extra) > 0


@pytest.mark.parametrize("learner", [tr.TAGI, tr.BayesByBackprop, tr.Ensemble])
@pytest.mark.parametrize(
    ("likelihood", "outputs"),
    [(tr.likelihoods.Categorical(3, link="probit"), 2), (tr.likelihoods.Softmax(3), 3)],
)
def test_label_probabilities_become_more_even_off_the_data(learner, likelihood, outputs, tmp_path):
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, outputs))
    model = learner(net, likelihood, seed=0).fit(x, y, epochs=5)
    assert model.off_data.support.slope.shape == (outputs,)
    far = 40 * torch.tensor([[1.0, 1.0], [-1.0, -1.0]])
    plain = model.outputs(far).predictive()
    p = model.predict(far)
    sure = plain.probs.amax(1) > 0.95
    assert bool(sure.any())
    assert bool((p.probs.amax(1) < 0.93)[sure].all())
    assert bool((p.entropy > plain.entropy).all())
    assert bool((p.epistemic > plain.epistemic).all())
    inside = model.off_data.support.novelty(x) == 0
    slope_radius = model.outputs(x).predictive().probs
    calm = model.off_data.support.distance(x).extra.amax(1) == 0
    assert bool((calm & inside).double().mean() > 0.8)
    assert torch.equal(model.predict(x).probs[calm], slope_radius[calm])
    model.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model")
    assert torch.equal(again.predict(far).probs, p.probs)


def test_labels_of_wide_inputs_are_only_marked():
    x = torch.randn(60, 33, generator=torch.Generator().manual_seed(0))
    net = nn.Linear(33, 1)
    model = tr.TAGI(net, tr.likelihoods.Bernoulli()).fit(x, (x[:, 0] > 0).long(), epochs=1)
    far = model.predict(50 * x)
    assert model.off_data.support.slope is None
    assert torch.equal(far.probs, model.outputs(50 * x).predictive().probs)
    assert bool((far.novelty > 1).all())


def test_an_ensemble_has_one_support_with_the_slope_of_its_mean():
    x, y = one_column(300)
    net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))
    model = tr.Ensemble(net, tr.likelihoods.Normal(0.1), n_estimators=3, lr=1e-2).fit(
        x, y, epochs=3
    )
    step = 1e-2 * float(model.off_data.support.scale)
    sides = [model.predict(x + h).mean for h in (-step, step)]
    slope = float(((sides[1] - sides[0]) / 2e-2).square().mean())
    assert float(model.off_data.support.slope) == pytest.approx(slope, rel=0.02)
    assert [name for name in model.state_dict() if "support/rows" in name] == ["support/rows"]


def test_updates_extend_the_support():
    x, y = one_column(300)
    model = linear().fit(x, y, epochs=2)
    there = torch.linspace(2.9, 3.1, 5).unsqueeze(1)
    before = model.predict(there)
    model.update(x[:50], y[:50])
    assert len(model.off_data.support.rows) == 300  # known already: nothing is kept
    for row in there:
        model.update(row, torch.zeros(1))
    after = model.predict(there)
    assert (before.novelty > 1).all()
    assert (after.novelty < 0.2).all()
    assert (after.epistemic < before.epistemic).all()
    assert len(model.off_data.support.rows) == 305
    assert torch.equal(model.clone().predict(there).variance, after.variance)


def waiting(model):
    """Return the number of elements that a copy of the learner would store for its support."""
    return sum(part.numel() for part in vars(model.off_data)["_later"])


@pytest.mark.parametrize(("batch", "batches"), [(1, 2500), (64, 60), (5000, 2)])
@pytest.mark.parametrize("columns", [1, 600])
def test_number_of_pending_rows_is_limited(batch, batches, columns):
    """The limit holds for any batch size, with and without predictions."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(100, columns, generator=draw)
    model = tr.TAGI(nn.Linear(columns, 1), tr.likelihoods.Normal(0.1)).fit(x, x[:, 0], epochs=1)
    limit = support.max_kept_rows((columns,))
    there = torch.full((3, columns), 50.0)
    model.update(there, torch.zeros(3))  # early in the stream, and unlike all later rows
    for _ in range(batches if columns == 1 else min(batches, 20)):
        rows = torch.randn(batch, columns, generator=draw) / 10
        model.learn_batch(rows[:1], rows[:1, :1])
        model.off_data.remember(rows)
        assert waiting(model) <= limit * columns
    assert len(model.off_data.support.rows) <= limit
    assert float(model.predict(there).novelty.max()) < 1


def test_a_stream_keeps_no_more_rows_than_a_fit():
    kept = TrainingSupport.from_rows(normal_rows(1000, 2))
    far = 1e4 * torch.arange(1.0, 301.0, dtype=torch.float64).unsqueeze(1).repeat(1, 2)
    longer = kept.joined(far)
    assert len(longer.rows) == 1000
    assert torch.equal(longer.rows[:700], kept.rows[300:])
    assert torch.equal(longer.rows[700:], kept.scaled(far))
    middle = kept.centre.expand(50, 2)
    assert kept.joined(middle) is kept


# --- files ---------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path):
    x, y = one_column(100)
    path = tmp_path / "model.tr"
    linear().fit(x, y, epochs=1).save(path)
    return path


def test_a_file_may_have_no_support(written):
    tensors, header = model_file.read(written)
    model_file.write(written, {k: t for k, t in tensors.items() if "support" not in k}, header)
    model = Learner.load(written)
    assert model.off_data.support is None
    assert model.predict([[1.0]]).novelty is None


def damage(name, change):
    def apply(tensors):
        tensors[f"support/{name}"] = change(tensors[f"support/{name}"])

    return apply


@pytest.mark.parametrize(
    "harm",
    [
        damage("rows", lambda t: t * math.nan),
        damage("rows", lambda t: t[:1]),
        damage("rows", lambda t: t.repeat(30, 1)),
        damage("rows", lambda t: t.repeat(1, 2)),
        damage("rows", lambda t: t.flatten()),
        damage("rows", lambda t: t.double()),
        damage("scale", lambda t: -t),
        damage("scale", lambda t: t.repeat(2)),
        damage("centre", lambda t: t * math.inf),
        damage("radius", lambda t: -1 - t),
        damage("radius", lambda t: t.unsqueeze(0)),
        damage("slope", lambda t: -t),
        damage("slope", lambda t: t.repeat(2)),
        damage("event", lambda t: t * 10**12),
        damage("event", lambda t: -t),
        damage("event", lambda t: t.double()),
        damage("event", lambda t: t[:0]),
        lambda tensors: tensors.pop("support/radius"),
        lambda tensors: tensors.pop("support/event"),
        lambda tensors: tensors.pop("support/rows"),
        lambda tensors: tensors.update({"support/more": torch.zeros(1)}),
    ],
)
def test_a_damaged_support_is_refused(written, harm):
    tensors, header = model_file.read(written)
    harm(tensors)
    model_file.write(written, tensors, header)
    with pytest.raises(InvalidModelFile):
        Learner.load(written)


# --- the compiled search -------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 2, 8, 33, 70])
@pytest.mark.parametrize("rows", [2, 3, 31, 32, 33, 700])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_nearest_neighbor_searches_agree_with_the_definition(
    rows, columns, dtype, monkeypatch
):
    """They agree up to the rounding of squared differences in the precision of the rows."""
    draw = torch.Generator().manual_seed(rows + columns)
    kept = torch.randn(rows, columns, generator=draw, dtype=dtype)
    kept[: rows // 4] = kept[rows // 2 : rows // 2 + rows // 4].clone()  # some rows twice
    column_slopes = torch.rand(columns, generator=draw, dtype=dtype).square() * 10
    x = torch.cat([kept[:9], 2 * torch.randn(40, columns, generator=draw, dtype=dtype) + 0.5])
    x = torch.cat([x, 1e6 * x[-3:]])
    between = cdist(x.double(), kept.double())
    steeply = cdist((x * column_slopes).double(), (kept * column_slopes).double())
    roots = [np.sqrt((np.sort(d, 1)[:, :3] ** 2).mean(1)) for d in (between, steeply)]
    limits = DistanceLimits(float(np.median(roots[0])), float(np.median(roots[1])), 0.7)
    first, second = (
        np.maximum(roots[0] - limits.radius, 0),
        np.maximum(roots[1] - limits.slope_radius, 0),
    )
    square = np.maximum(first**2, 0.7 * second**2)
    assert (square == 0).any()
    assert (square > 0).any()
    close = {"rtol": 1e-5 if dtype == torch.float32 else 1e-12}
    for kernel in (native.kernel(), None):
        if kernel is None:
            monkeypatch.setattr(native, "kernel", lambda: None)
            if columns > 32:
                close = {"rtol": 1e-3 if dtype == torch.float32 else 1e-6}
        nearest = NearestDistances(kept, column_slopes, limits)
        novelty, growth = nearest.growth(x)
        assert novelty.dtype == growth.dtype == dtype
        near_zero = 1e-5 * limits.radius
        np.testing.assert_allclose(novelty, first, **close, atol=near_zero)
        np.testing.assert_allclose(growth, square, **close, atol=near_zero)
        np.testing.assert_allclose(nearest.beyond(x), first, **close, atol=near_zero)
        one = torch.cat([nearest.growth(row.unsqueeze(0))[1] for row in x])
        np.testing.assert_allclose(one, square, **close, atol=near_zero)
        assert nearest.growth(x[:0])[0].shape == (0,)


@pytest.mark.skipif(native.kernel() is None, reason="the kernel was not built")
@pytest.mark.parametrize("seed", range(3))
def test_predictions_are_the_same_with_the_kernel_and_without(seed, monkeypatch):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(400, 6, generator=draw) * torch.logspace(-1, 1, 6)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    model = tr.TAGI(net, tr.likelihoods.Normal(), engine="torch", seed=seed)
    model.fit(x, x.sum(1).sin(), epochs=3)
    at = torch.cat([x[:50], 2 * x[:50], x[:50] + 3])
    by_kernel, alone = model.predict(at), [model.predict(row.unsqueeze(0)) for row in at]
    np.testing.assert_allclose(
        torch.cat([p.variance for p in alone]), by_kernel.variance, rtol=1e-5
    )
    monkeypatch.setattr(native, "kernel", lambda: None)
    by_torch = model.clone().predict(at)
    np.testing.assert_allclose(by_kernel.variance, by_torch.variance, rtol=1e-5)
    np.testing.assert_allclose(by_kernel.novelty, by_torch.novelty, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(native.kernel() is None, reason="the kernel was not built")
def test_the_kernel_refuses_rows_that_do_not_fit():
    kernel = native.kernel()
    blocks = np.zeros((2, 3, kernel.TOGETHER))
    x = np.zeros((5, 3))
    limits = (1.0, 1.0, 1.0)
    kernel.beyond(x, blocks, kernel.TOGETHER + 1, np.zeros(3), *limits)
    for wrong in (
        (x[:, :2].copy(), blocks, 33, None),
        (x, blocks[:, :, :8].copy(), 33, None),
        (x, blocks, kernel.TOGETHER, None),
        (x, blocks, 2 * kernel.TOGETHER + 1, None),
        (x, blocks, 0, None),
        (x, blocks, 33, np.zeros(2)),
        (x[0], blocks, 33, None),
    ):
        with pytest.raises(ValueError, match=r"rows|weight|columns"):
            kernel.beyond(*wrong, *limits)
    for wrong in (x.astype(np.float32), x.astype(np.int64), x[:, ::-1]):
        with pytest.raises(TypeError):
            kernel.beyond(wrong, blocks, 33, None, *limits)


def test_a_copy_measures_the_same_distances():
    model = linear().fit(*one_column(100), epochs=1)
    far = torch.tensor([[3.0], [0.0]])
    before = model.predict(far)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin.predict(far).variance, before.variance)
