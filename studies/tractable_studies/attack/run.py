"""Targeted and untargeted adversarial attacks by inference of inputs: table 1 and figure 1.

A trained model (``python -m tractable_studies.images.run mnist-cnn --model FILE``) is attacked
with every wrong label for a number of test images (targeted), and with none in particular
(untargeted).  ``sigma`` is 0.03 of the pixel range [0, 1], distortions are in the same unit.
The paper gives no scale for its images.

They are compared with gradient attacks on the network of the posterior means: PGD with the same
number of iterations, and FGSM, at the same distortion.

    python -m tractable_studies.attack.run mnist
    python -m tractable_studies.attack.run cifar10 --model FILE
    python -m tractable_studies.attack.run mnist --quick

The model is by default the one that the study of images left in ``out/``; ``--quick`` trains
a poor one on the spot.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tractable as tr
from tractable import attacks
from tractable.attacks import AttackResult
from tractable.attacks import tagi_attack as attack
from tractable.cli.output import print_line, print_table
from tractable.data import ImageData, cifar10, mnist
from tractable.report.results import Chart, Comparison
from tractable_studies.attack import STUDIES
from tractable_studies.framework.options import (
    StudyOptions,
    argument,
    option,
    parse,
    seed_option,
    settings,
)
from tractable_studies.framework.progress import PartsProgress
from tractable_studies.framework.record import RunRecord
from tractable_studies.images.run import TASKS, learner, standardized

PUBLISHED = {"mnist": (0.64, 99.8, 99.9), "cifar10": (22.0, 99.6, 99.9)}
"""Error in percent without attack, targeted and untargeted (table 1)."""
BATCH = 250
DATA = {"mnist": mnist, "cifar10": cifar10}
NETWORK = {"mnist": "mnist-cnn", "cifar10": "cifar-cnn"}


@dataclass(frozen=True)
class Images:
    """Test images as the network receives them, and the size of one unit in pixels."""

    x: Tensor
    labels: Tensor
    unit: Tensor
    clip: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, data: ImageData) -> Images:
        """Return the standardized test set."""
        mean = data.train_images.mean((0, 2, 3), keepdim=True)
        unit = data.train_images.std((0, 2, 3), keepdim=True)
        clip = (-mean / unit)[0], ((1 - mean) / unit)[0]
        return cls(standardized(data)[1], data.test_labels, unit[0], clip)


def in_batches(
    model: tr.TAGI, images: Images, rows: Tensor, target: Tensor | None, **settings: Any
) -> tuple[list[AttackResult], float]:
    """Attack rows of the test set in batches; return the attacks and the duration in seconds."""
    started, found = time.perf_counter(), []
    for part in range(0, len(rows), BATCH):
        these = rows[part : part + BATCH]
        goal = None if target is None else target[part : part + BATCH]
        label = images.labels[these] if target is None else None
        found.append(
            attack(model, images.x[these], goal, pixel_scale=images.unit, label=label, **settings)
        )
    return found, time.perf_counter() - started


def gather(parts: list[AttackResult], field: str) -> Tensor:
    """Concatenate one field of all batches."""
    return torch.cat([getattr(part, field) for part in parts])


def summary(parts: list[AttackResult], seconds: float) -> dict[str, float]:
    """Return success rate and distortion, in percent and pixel units."""
    success = gather(parts, "success")
    l2, linf = gather(parts, "l2"), gather(parts, "linf")
    return {
        "success percent": round(100 * float(success.float().mean()), 2),
        "mean l2": round(float(l2.mean()), 4),
        "mean linf": round(float(linf.mean()), 4),
        "mean steps": round(float(gather(parts, "steps").float().mean()), 2),
        "images": len(success),
        "ms per image": round(1000 * seconds / len(success), 2),
    }


def gradients(
    model: tr.TAGI, images: Images, rows: Tensor, label: Tensor, rival: list[AttackResult],
    targeted: bool, steps: int,
) -> dict[str, dict[str, float]]:  # fmt: skip
    """Gradient attacks on the mean network, with the distortion that inference needed.

    ``pgd`` and ``fgsm`` have its mean (L2 and L-infinity) as radius for every image; ``pgd, own
    radius`` has for each image the L2 distortion that inference made of this very image.
    """
    mean_pixel = -images.clip[0] * images.unit
    x = images.x[rows] * images.unit + mean_pixel
    l2, linf = (gather(rival, norm)[: len(rows)] for norm in ("l2", "linf"))
    mean = nn.Sequential(_Standardize(mean_pixel, images.unit), model.mean_module())
    point = tr.Backprop(mean, model.likelihood, init="net")
    chosen: dict[str, Any] = {"targeted": targeted, "bounds": None, "batch_size": BATCH}

    def by_pgd(radius: Tensor) -> Tensor:
        return attacks.pgd(point, x, label, radius, norm="2", steps=steps, **chosen)

    def by_fgsm(radius: Tensor) -> Tensor:
        return attacks.fgsm(point, x, label, radius, **chosen)

    found = {}
    for name, method, radius in (
        ("pgd", by_pgd, l2.mean().expand_as(l2)),
        ("pgd, own radius", by_pgd, l2),
        ("fgsm", by_fgsm, linf.mean().expand_as(linf)),
    ):
        started = time.perf_counter()
        new = method(radius)
        seconds = time.perf_counter() - started
        labels = model.predict((new - mean_pixel) / images.unit).labels
        fooled = labels == label if targeted else labels != label
        change = (new - x).flatten(1)
        found[name] = {
            "success percent": round(100 * float(fooled.float().mean()), 2),
            "mean l2": round(float(change.norm(dim=1).mean()), 4),
            "mean linf": round(float(change.abs().amax(1).mean()), 4),
            "images": len(rows),
            "ms per image": round(1000 * seconds / len(rows), 2),
        }
    return found


class _Standardize(nn.Module):
    """Convert pixels to the inputs of the network."""

    mean: Tensor
    unit: Tensor

    def __init__(self, mean: Tensor | float, unit: Tensor | float) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean))
        self.register_buffer("unit", torch.as_tensor(unit))

    def forward(self, x: Tensor) -> Tensor:
        """Center and scale the pixels."""
        return (x - self.mean) / self.unit


def picture(model: tr.TAGI, images: Images, **settings: Any) -> Any:
    """Draw figure 1: the first image of every class (rows), changed to every class (columns)."""
    from matplotlib.figure import Figure

    first = torch.stack([(images.labels == c).nonzero()[0, 0] for c in range(10)])
    rows, target = first.repeat_interleave(10), torch.arange(10).repeat(10)
    parts, _ = in_batches(model, images, rows, target, **settings)
    shown = torch.cat([part.images.loc for part in parts]) * images.unit
    shown = (shown - images.clip[0] * images.unit).clamp(0, 1).permute(0, 2, 3, 1)
    success = gather(parts, "success")
    sheet = Figure(figsize=(10, 10), layout="constrained")
    grid = sheet.subplots(10, 10)
    for i, axes in enumerate(grid.flat):
        axes.imshow(shown[i].squeeze(-1), cmap="gray", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set_color("C2" if success[i] else "C3")
    for c in range(10):
        grid[0, c].set_title(f"as {c}")
        grid[c, 0].set_ylabel(f"is {c}")
    return sheet


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options of the attack."""

    data: str = argument("images to attack", STUDIES)
    seed: int = seed_option(0)
    model: Path | None = option(None, "model file of a trained TAGI", metavar="FILE")
    images: int = option(1000, "first test images to attack", quick=40, min_value=1)
    all_targets: bool = option(False, "nine targets per image, not one")
    rivals: int | None = option(None, "images for gradient attacks; by default all", min_value=1)
    sigma: float = option(0.03, "standard deviation of the change, in the unit of pixels")
    sigma_v: float | None = option(None, "standard deviation of the observed label")
    steps: int = option(100, "number of steps of an attack, at most", quick=30, min_value=1)
    clip: bool = option(False, "keep pixels within [0, 1]")
    rows: int = option(3000, "to train on, with --quick", min_value=1)
    test_rows: int | None = option(
        None, "for the error without attack; all if none", quick=2000, min_value=1
    )
    plots: bool = option(False, "draw figure 1", also=("--figures",))


def victim(options: Options) -> tr.TAGI:
    """Return the model to attack: the user's, one of an earlier run, or trained with --quick."""
    task = NETWORK[options.data]
    path = options.model or Path("out") / task / f"{task}.tr"
    if options.model is not None or (path.is_file() and not options.quick):
        return tr.TAGI.load(path)
    if not options.quick:
        raise FileNotFoundError(
            f"no model at {path}: train one with `tractable run {task}`, or give --model FILE"
        )
    print_line("training a small model to attack")
    data = DATA[options.data]()
    rows = slice(options.rows)
    x = standardized(data)[0][rows]
    chosen = TASKS[task]
    model = learner(chosen, sigma=chosen.sigma, gain=0.25, forget=0.3, seed=options.seed)
    return model.fit(x, data.train_labels[rows], epochs=1, batch_size=32)


def compare(metrics: dict[str, Any], published: tuple[float, float, float]) -> list[Comparison]:
    """Print table 1 and the results of the gradient attacks."""
    rows = [
        Comparison(
            "error without attack", published[0], metrics["error percent"], "%",
            better="smaller", learner="TAGI",
        )
    ]  # fmt: skip
    for name, paper in zip(("targeted", "untargeted"), published[1:], strict=True):
        for method, found in metrics.get(name, {}).items():
            shape = f"L2 {found['mean l2']}, Linf {found['mean linf']}, {found['ms per image']} ms"
            claim = paper if method == "inference" else None
            rows.append(
                Comparison(
                    f"{name} success, {method}",
                    claim,
                    found["success percent"],
                    "%",
                    better="larger",
                    learner=method,
                    measure=f"{name} success",
                    note=shape,
                )
            )
    return rows


def steps_chart(name: str, parts: list[AttackResult], most: int) -> Chart:
    """Return the share of misclassified images by number of steps."""
    success, steps = gather(parts, "success"), gather(parts, "steps")
    counts = list(range(min(int(steps.max()), most) + 1))
    share = [100 * float((success & (steps <= n)).double().mean()) for n in counts]
    title = f"{name.capitalize()} attack: success by steps"
    return Chart(title, "steps", "success [%]", {"inference": (counts, share)})


def aims(options: Options, images: Images) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Return rows of the test set and target labels for both kinds of attack."""
    rows = torch.arange(len(images.x))[: options.images]
    if options.all_targets:
        aimed, shift = rows.repeat_interleave(9), torch.arange(1, 10).repeat(len(rows))
    else:
        generator = torch.Generator().manual_seed(options.seed)
        aimed, shift = rows, torch.randint(1, 10, (len(rows),), generator=generator)
    target = (images.labels[aimed] + shift) % 10
    return {"targeted": (aimed, target), "untargeted": (rows, None)}


def error_percent(model: tr.TAGI, images: Images, rows: int | None) -> float:
    """Return the test error in percent of the attacked model without attack."""
    known = slice(rows)
    wrong = model.predict(images.x[known]).labels != images.labels[known]
    return round(100 * float(wrong.float().mean()), 2)


def main(argv: Sequence[str] | None = None) -> Path:
    """Run the attacks, print table 1 and draw figure 1."""
    options = parse(Options, STUDIES, argv, __doc__)
    images = Images.of(DATA[options.data]())
    model = victim(options)
    chosen: dict[str, Any] = {
        "input_std": options.sigma, "noise_std": options.sigma_v, "steps": options.steps,
    }  # fmt: skip
    more = settings(options, "data", "model", "rows", "test_rows", "plots", "all_targets")
    more["targets per image"] = 9 if options.all_targets else 1
    record = RunRecord(options.study, seeds=[options.seed], settings=more, argv=argv)
    record.metrics["error percent"] = error_percent(model, images, options.test_rows)
    if options.clip:
        chosen["bounds"] = images.clip
    with PartsProgress(2, "attacks") as parts:
        for name, (rows, goal) in aims(options, images).items():
            found, seconds = in_batches(model, images, rows, goal, **chosen)
            ours = summary(found, seconds)
            few = rows[: options.rivals]
            label = images.labels[few] if goal is None else goal[: options.rivals]
            rivals = gradients(model, images, few, label, found, goal is not None, options.steps)
            record.metrics[name] = {"inference": ours, **rivals}
            record.comparison = compare(record.metrics, PUBLISHED[options.data])
            record.charts.append(steps_chart(name, found, options.steps))
            path = record.write(options.out)
            parts.step(f"{name}: {ours['success percent']} %")
    if options.plots:
        caption = "Figure 1: the first image of every class (rows) as every class (columns)"
        record.picture(options.out, picture(model, images, **chosen), caption=caption)
        path = record.write(options.out)
    lines = [
        [row.name, "" if row.paper is None else f"{row.paper} %", f"{row.ours} %", row.note]
        for row in record.comparison
    ]
    print_table(["", "paper", "ours", "in pixel units, per image"], lines)
    print_line(f"written to {path}")
    return path


if __name__ == "__main__":
    main()
