"""Adversarial attacks by inference: table 1 and figure 1.

A trained model (``python -m tractable.experiments.images mnist-cnn --model FILE``) is attacked
with every wrong label for a number of test images (targeted), and with none in particular
(untargeted).  ``sigma`` is 0.03 of the pixel range [0, 1], distortions are in the same unit.
The paper gives no scale for its images.

Beside it stand gradient attacks on the network of the posterior means, PGD with the same number
of iterations and FGSM, at the same distortion.

    python -m tractable.experiments.attack mnist --model mnist_cnn.safetensors
    python -m tractable.experiments.attack cifar10 --model cifar_cnn.safetensors
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tractable as tr
from tractable.data import ImageData, cifar10, mnist
from tractable.experiments import pgd
from tractable.experiments.images import standardized
from tractable.experiments.record import Record, table
from tractable.infer import Attack, attack

PUBLISHED = {"mnist": (0.64, 99.8, 99.9), "cifar10": (22.0, 99.6, 99.9)}
"""Error in percent without attack, targeted and untargeted (table 1)."""
BATCH = 250
DATA = {"mnist": mnist, "cifar10": cifar10}


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
    model: tr.TAGI, images: Images, rows: Tensor, target: Tensor | None, **options: Any
) -> tuple[list[Attack], float]:
    """Attack some rows of the test set, batch by batch; the attacks and their seconds."""
    started, found = time.perf_counter(), []
    for part in range(0, len(rows), BATCH):
        these = rows[part : part + BATCH]
        goal = None if target is None else target[part : part + BATCH]
        label = images.labels[these] if target is None else None
        found.append(attack(model, images.x[these], goal, unit=images.unit, label=label, **options))
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
    l2, linf = gather(rival, "l2"), gather(rival, "linf")

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
            "ms per image": round(1000 * seconds / len(rows), 2),
        }
    return found


def picture(model: tr.TAGI, images: Images, path: Path, **options: Any) -> None:
    """Figure 1: the first image of every class (rows) as every class (columns)."""
    from matplotlib.figure import Figure

    first = torch.stack([(images.labels == c).nonzero()[0, 0] for c in range(10)])
    rows, target = first.repeat_interleave(10), torch.arange(10).repeat(10)
    parts, _ = in_batches(model, images, rows, target, **options)
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
    sheet.savefig(path, dpi=120)


def main() -> None:
    """Attack, compare, print table 1, draw figure 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", choices=sorted(DATA))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--images", type=int, default=1000, help="first test images to attack")
    parser.add_argument(
        "--all-targets", action="store_true", help="nine targets per image, not one"
    )
    parser.add_argument("--sigma", type=float, default=0.03)
    parser.add_argument("--sigma-v", type=float)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--clip", action="store_true", help="keep pixels within [0, 1]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = tr.TAGI.load(args.model)
    images = Images.of(DATA[args.data]())
    options: dict[str, Any] = {"sigma": args.sigma, "sigma_v": args.sigma_v, "steps": args.steps}
    if args.clip:
        options["clip"] = images.clip
    settings = {**options, "clip": args.clip, "images": args.images}
    settings["targets per image"] = 9 if args.all_targets else 1
    record = Record(f"attack-{args.data}", seeds=[args.seed], settings=settings)
    rows = torch.arange(len(images.x))[: args.images]
    if args.all_targets:
        aimed, shift = rows.repeat_interleave(9), torch.arange(1, 10).repeat(len(rows))
    else:
        generator = torch.Generator().manual_seed(args.seed)
        aimed, shift = rows, torch.randint(1, 10, (len(rows),), generator=generator)
    target = (images.labels[aimed] + shift) % 10
    wrong = model.predict(images.x).labels != images.labels
    figures: dict[str, Any] = {"error percent": round(100 * float(wrong.float().mean()), 2)}
    for name, these, goal in (("targeted", aimed, target), ("untargeted", rows, None)):
        parts, seconds = in_batches(model, images, these, goal, **options)
        ours = summary(parts, seconds)
        label = images.labels[these] if goal is None else goal
        rivals = gradients(model, images, these, label, parts, goal is not None, args.steps)
        figures[name] = {"inference": ours, **rivals}
        record.figures = figures
        record.write(args.out)
    published = PUBLISHED[args.data]
    lines = [["error without attack", f"{published[0]} %", f"{figures['error percent']} %", ""]]
    for name, paper in zip(("targeted", "untargeted"), published[1:], strict=True):
        for method, found in figures[name].items():
            shape = f"L2 {found['mean l2']}, Linf {found['mean linf']}, {found['ms per image']} ms"
            claim = f"{paper} %" if method == "inference" else ""
            lines.append([f"{name}, {method}", claim, f"{found['success percent']} %", shape])
    path = record.write(args.out)
    print(table(lines, ["", "paper", "ours", "in pixel units, per image"]))
    if args.figures:
        picture(model, images, args.out / f"attack-{args.data}.png", **options)
    print(f"written to {path}")


if __name__ == "__main__":
    main()
