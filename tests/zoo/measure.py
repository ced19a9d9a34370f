"""Count unchanged models of other libraries that run: ``python -m tests.zoo.measure timm``.

Each model, under each learner: construct, one update on random rows, one prediction, all finite;
then, for TAGI, the limit of no variance against the plain forward.  Libraries that are not
installed are skipped.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import tractable as tr
from tractable import Gaussian

Case = tuple[str, Callable[[], tuple[nn.Module, Tensor]]]

TORCHVISION = """alexnet resnet18 resnet50 densenet121 squeezenet1_1 mobilenet_v2 mobilenet_v3_small
    mnasnet0_5 shufflenet_v2_x0_5 efficientnet_b0 regnet_y_400mf regnet_x_400mf convnext_tiny
    swin_t"""
TIMM = """resnet10t resnet18d ecaresnet26t skresnet18 seresnet33ts gcresnext26ts nf_resnet26
    mobilenetv2_035 mobilenetv3_small_050 efficientnet_lite0 tinynet_e lcnet_035 ghostnet_050
    repvgg_a0 regnetx_002 dla46_c hrnet_w18_small rexnet_100 convnext_atto convnextv2_atto
    poolformer_s12
    edgenext_xx_small efficientvit_b0 mobilevit_xxs"""
TIMM_SIZED = """vit_tiny_patch16_224 deit_tiny_patch16_224 resmlp_12_224 gmlp_ti16_224
    cait_xxs24_224 xcit_nano_12_p16_224"""
TRANSFORMERS = "Bert Roberta Electra Llama Mistral Qwen2 GPTNeoX Albert"
CONVOLUTIONS = """GCNConv SAGEConv GraphConv TAGConv SGConv ClusterGCNConv GENConv GATConv GATv2Conv
    TransformerConv"""


def torchvision() -> Iterator[Case]:
    """Return classifiers with images of 64 pixels."""
    models = importlib.import_module("torchvision").models
    for name in TORCHVISION.split():
        make = getattr(models, name)
        yield (
            name,
            lambda make=make: (make(weights=None, num_classes=10), torch.randn(2, 3, 64, 64)),
        )


def timm() -> Iterator[Case]:
    """Return classifiers with images of 64 pixels, or of 32 where a size can be given."""
    create = importlib.import_module("timm").create_model
    for name in TIMM.split():
        yield name, lambda n=name: (create(n, num_classes=10), torch.randn(2, 3, 64, 64))
    for name in TIMM_SIZED.split():
        yield (
            name,
            lambda n=name: (create(n, num_classes=10, img_size=32), torch.randn(2, 3, 32, 32)),
        )


class Hidden(nn.Module):
    """A module that maps one tensor to one tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        return self.model(x).last_hidden_state


def transformers() -> Iterator[Case]:
    """Return small configurations of language models."""
    library = importlib.import_module("transformers")
    small: dict[str, Any] = {
        "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 32, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    for name in TRANSFORMERS.split():
        options = dict(small)
        if name in ("Electra", "Albert"):
            options["embedding_size"] = 32
        if name in ("Llama", "Mistral", "Qwen2"):
            options["num_key_value_heads"] = 2

        def build(n: str = name, o: dict[str, Any] = options) -> tuple[nn.Module, Tensor]:
            model = getattr(library, f"{n}Model")(getattr(library, f"{n}Config")(**o))
            return Hidden(model), torch.randint(3, 50, (2, 6))

        yield f"{name}Model", build


class Graphs(nn.Module):
    """Return rows of six-node ring graphs, in one batch."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        ring = torch.arange(6)
        edges = torch.stack([ring, (ring + 1) % 6])
        edges = torch.cat([edges + 6 * i for i in range(len(x))], 1)
        out: Tensor = self.conv(x.flatten(0, 1), edges)
        return out.reshape(len(x), 6, -1)


def torch_geometric() -> Iterator[Case]:
    """Return graph convolutions."""
    layers = importlib.import_module("torch_geometric.nn")
    for name in CONVOLUTIONS.split():
        make = getattr(layers, name)
        yield name, lambda make=make: (Graphs(make(4, 8)), torch.randn(2, 6, 4))


LEARNERS: dict[str, Callable[..., tr.Learner]] = {
    "TAGI": tr.TAGI,
    "BayesByBackprop": tr.BayesByBackprop,
    "BayesByBackprop, local": partial(tr.BayesByBackprop, estimator="local"),
    "Backprop": partial(tr.Backprop, init="net"),
}


def outcome(make: Callable[..., tr.Learner], net: nn.Module, x: Tensor, y: Tensor) -> str:
    """Return ``"OK"`` or a description of the failure."""
    try:
        prediction = make(net, tr.likelihoods.Normal(1.0)).update(x, y).predict(x)
        if not bool(torch.isfinite(prediction.mean).all() & torch.isfinite(prediction.std).all()):
            return "not finite"
        if make is not tr.TAGI:
            return "OK"
        net = copy.deepcopy(net).eval()
        states = {n: Gaussian(p.detach(), 0.0) for n, p in net.named_parameters()}
        with torch.no_grad():
            plain, z = net(x), torch.func.functional_call(net, states, (x,))
        error = float((z.loc - plain).abs().max() / plain.abs().max().clamp_min(1))
    except Exception as problem:
        return f"{type(problem).__name__}: {str(problem)[:80]}"
    return "OK" if error < 1e-4 else f"differs by {error:.1e} without variance"


def say(line: str) -> None:
    """Print a line immediately."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Print one line per failure, and the share of models that work under each learner."""
    families = {"torchvision": torchvision, "timm": timm, "transformers": transformers,
                "torch_geometric": torch_geometric}  # fmt: skip
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("families", nargs="*", default=list(families))
    for family in parser.parse_args().families:
        if importlib.util.find_spec(family) is None:
            say(f"{family}: not installed")
            continue
        cases, good = list(families[family]()), dict.fromkeys(LEARNERS, 0)
        for name, build in cases:
            torch.manual_seed(0)
            net, x = build()
            with torch.no_grad():
                y = torch.randn_like(copy.deepcopy(net).train()(x))
            for learner, make in LEARNERS.items():
                found = outcome(make, net, x, y)
                good[learner] += found == "OK"
                if found != "OK":
                    say(f"  {name}, {learner}: {found}")
        for learner, number in good.items():
            say(
                f"{family}, {learner}: {number} of {len(cases)} ({100 * number / len(cases):.0f} %)"
            )


if __name__ == "__main__":
    main()
