"""Adversarial attacks by inference: table 1 and figure 1.

A trained model (``python -m tractable.experiments.images mnist-cnn --model FILE``) is attacked
with every wrong label for a number of test images (targeted), and with none in particular
(untargeted).  ``sigma`` is 0.03 of the pixel range [0, 1], distortions are in the same unit.
The paper gives no scale for its images.

Beside it stand gradient attacks on the network of the posterior means, PGD with the same number
of iterations and FGSM, at the same distortion.

    python -m tractable.experiments.attack mnist
    python -m tractable.experiments.attack cifar10 --model FILE
    python -m tractable.experiments.attack mnist --quick

The model is by default the one that the experiment on images left in ``out/``; ``--quick`` trains
a poor one on the spot.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tractable as tr
from tractable.attacks import Attack
from tractable.attacks import infer as attack
from tractable.data import ImageData, cifar10, mnist
from tractable.experiments import options, pgd
from tractable.experiments.images import TASKS, learner, standardized
from tractable.experiments.progress import Countdown, say
from tractable.experiments.record import Record, table
from tractable.report.results import Chart, Comparison

PUBLISHED = {"mnist": (0.64, 99.8, 99.9), "cifar10": (22.0, 99.6, 99.9)}
"""Error in percent without attack, targeted and untargeted (table 1)."""
BATCH = 250
DATA = {"mnist": mnist, "cifar10": cifar10}
NETWORK = {"mnist": "mnist-cnn", "cifar10": "cifar-cnn"}


@dataclass(frozen=True)
class Images:
    """Test images as the network takes them, and what a unit of them is in pixels."""

    x: Tensor
    labels: Tensor
    unit: Tensor
    clip: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, data: ImageData) -> Images:
        """The standardised test set."""
        mean = data.train_images.mean((0, 2, 3), keepdim=True)
        unit = data.train_images.std((0, 2, 3), keepdim=True)
        clip = (-mean / unit)[0], ((1 - mean) / unit)[0]
        return cls(standardized(data)[1], data.test_labels, unit[0], clip)


def in_batches(
    model: tr.TAGI, images: Images, rows: Tensor, target: Tensor | None, **settings: Any
) -> tuple[list[Attack], float]:
    """Attack some rows of the test set, batch by batch; the attacks and their seconds."""
    started, found = time.perf_counter(), []
    for part in range(0, len(rows), BATCH):
        these = rows[part : part + BATCH]
        goal = None if target is None else target[part : part + BATCH]
        label = images.labels[these] if target is None else None
        found.append(
            attack(model, images.x[these], goal, unit=images.unit, label=label, **settings)
        )
    return found, time.perf_counter() - started


def gather(parts: list[Attack], field: str) -> Tensor:
    """One field of all batches."""
    return torch.cat([getattr(part, field) for part in parts])


def summary(parts: list[Attack], seconds: float) -> dict[str, float]:
    """Success and distortion, in percent and pixel units."""
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
    model: tr.TAGI, images: Images, rows: Tensor, label: Tensor, rival: list[Attack],
    targeted: bool, steps: int,
) -> dict[str, dict[str, float]]:  # fmt: skip
    """Gradient attacks on the mean network, with the distortion that inference needed.

    ``pgd`` and ``fgsm`` have its mean (L2 and L-infinity) as radius for every image; ``pgd, own
    radius`` has for each image the L2 distortion that inference made of this very image.
    """
    net = model.posterior.mean_module(model.net).eval()
    mean_pixel = -images.clip[0] * images.unit
    x = images.x[rows] * images.unit + mean_pixel
    l2, linf = (gather(rival, norm)[: len(rows)] for norm in ("l2", "linf"))

    def log_prob(x: Tensor, label: Tensor) -> Tensor:
        z = net((x - mean_pixel) / images.unit)
        probs = model.likelihood.predictive(z, torch.zeros_like(z)).probs
        return probs.gather(1, label.unsqueeze(1)).clamp_min(1e-30).log()

    def by_pgd(these: slice, radius: Tensor) -> Tensor:
        return pgd.pgd(log_prob, x[these], label[these], radius[these], targeted, steps)

    def by_fgsm(these: slice, radius: Tensor) -> Tensor:
        return pgd.fgsm(log_prob, x[these], label[these], radius[these], targeted)

    found = {}
    for name, method, radius in (
        ("pgd", by_pgd, l2.mean().expand_as(l2)),
        ("pgd, own radius", by_pgd, l2),
        ("fgsm", by_fgsm, linf.mean().expand_as(linf)),
    ):
        started = time.perf_counter()
        starts = range(0, len(rows), BATCH)
        new = torch.cat([method(slice(start, start + BATCH), radius) for start in starts])
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


def picture(model: tr.TAGI, images: Images, **settings: Any) -> Any:
    """Figure 1, drawn: the first image of every class (rows) as every class (columns)."""
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


def victim(args: Any) -> tr.TAGI:
    """The model to attack: the user's, that of an earlier run, or with --quick a poor one."""
    task = NETWORK[args.data]
    path = args.model or Path("out") / task / f"{task}.tr"
    if args.model is not None or (path.is_file() and not args.quick):
        return tr.TAGI.load(path)
    if not args.quick:
        raise FileNotFoundError(
            f"no model at {path}: train one with `tractable run {task}`, or give --model FILE"
        )
    say("training a small model to attack")
    data = DATA[args.data]()
    rows = slice(args.rows)
    x = standardized(data)[0][rows]
    chosen = TASKS[task]
    model = learner(chosen, sigma=chosen.sigma, gain=0.25, forget=0.3, seed=args.seed)
    return model.fit(x, data.train_labels[rows], epochs=1, batch_size=32)


def compare(figures: dict[str, Any], published: tuple[float, float, float]) -> list[Comparison]:
    """Table 1, with the gradient attacks below."""
    rows = [
        Comparison(
            "error without attack", published[0], figures["error percent"], "%",
            better="smaller", learner="TAGI",
        )
    ]  # fmt: skip
    for name, paper in zip(("targeted", "untargeted"), published[1:], strict=True):
        for method, found in figures.get(name, {}).items():
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


def steps_chart(name: str, parts: list[Attack], most: int) -> Chart:
    """Share of the images that are misread, by the number of steps it took."""
    success, steps = gather(parts, "success"), gather(parts, "steps")
    counts = list(range(min(int(steps.max()), most) + 1))
    share = [100 * float((success & (steps <= n)).double().mean()) for n in counts]
    title = f"{name.capitalize()} attack: success by steps"
    return Chart(title, "steps", "success [%]", {"inference": (counts, share)})


def main(argv: Sequence[str] | None = None) -> None:
    """Attack, compare, print table 1, draw figure 1."""
    parser = options.parser("attack", __doc__)
    parser.add_argument("data", choices=sorted(DATA))
    parser.add_argument("--model", type=Path, metavar="FILE", help="of a trained TAGI")
    parser.add_argument("--images", type=int, default=1000, help="first test images to attack")
    parser.add_argument(
        "--all-targets", action="store_true", help="nine targets per image, not one"
    )
    parser.add_argument("--rivals", type=int, help="images for gradient attacks; by default all")
    parser.add_argument("--sigma", type=float, default=0.03)
    parser.add_argument("--sigma-v", type=float)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--clip", action="store_true", help="keep pixels within [0, 1]")
    parser.add_argument("--rows", type=int, default=3000, help="to train on, with --quick")
    parser.add_argument("--test-rows", type=int, help="for the error without attack; all if none")
    parser.add_argument("--figures", action="store_true", help="draw figure 1")
    quick = {"images": 40, "steps": 30, "test_rows": 2000}
    args = options.parse(parser, argv, quick, name=lambda args: f"attack-{args.data}")
    images = Images.of(DATA[args.data]())
    model = victim(args)
    chosen: dict[str, Any] = {"sigma": args.sigma, "sigma_v": args.sigma_v, "steps": args.steps}
    settings = {**chosen, "clip": args.clip, "images": args.images, "quick": args.quick}
    settings |= {"rivals": args.rivals, "targets per image": 9 if args.all_targets else 1}
    if args.clip:
        chosen["clip"] = images.clip
    record = Record(args.experiment, seeds=[args.seed], settings=settings, argv=argv)
    rows = torch.arange(len(images.x))[: args.images]
    if args.all_targets:
        aimed, shift = rows.repeat_interleave(9), torch.arange(1, 10).repeat(len(rows))
    else:
        generator = torch.Generator().manual_seed(args.seed)
        aimed, shift = rows, torch.randint(1, 10, (len(rows),), generator=generator)
    target = (images.labels[aimed] + shift) % 10
    known = slice(args.test_rows)
    wrong = model.predict(images.x[known]).labels != images.labels[known]
    figures: dict[str, Any] = {"error percent": round(100 * float(wrong.float().mean()), 2)}
    record.figures = figures
    progress = Countdown(2, "attacks")
    for name, these, goal in (("targeted", aimed, target), ("untargeted", rows, None)):
        parts, seconds = in_batches(model, images, these, goal, **chosen)
        ours = summary(parts, seconds)
        few = these[: args.rivals]
        label = images.labels[few] if goal is None else goal[: args.rivals]
        rivals = gradients(model, images, few, label, parts, goal is not None, args.steps)
        figures[name] = {"inference": ours, **rivals}
        record.comparison = compare(figures, PUBLISHED[args.data])
        record.charts.append(steps_chart(name, parts, args.steps))
        path = record.write(args.out)
        progress.step(f"{name}: {ours['success percent']} %")
    if args.figures:
        caption = "Figure 1: the first image of every class (rows) as every class (columns)"
        record.picture(args.out, picture(model, images, **chosen), caption=caption)
        path = record.write(args.out)
    lines = [
        [row.name, "" if row.paper is None else f"{row.paper} %", f"{row.ours} %", row.note]
        for row in record.comparison
    ]
    say(table(lines, ["", "paper", "ours", "in pixel units, per image"]))
    say(f"written to {path}")


if __name__ == "__main__":
    main()
