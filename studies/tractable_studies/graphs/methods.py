"""Learning methods for graph networks, each with its candidate settings."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import tractable as tr
from tractable import graphs as G
from tractable.data import CitationData
from tractable.training import holdout

Setting = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A learning method.

    Attributes:
        title: title in tables.
        known: a published or usual setting, always among the candidates.
        choices: what else each part of a setting may be.
        make: a learner from data, a setting, a seed and the number of classes.
    """

    title: str
    known: Setting
    choices: dict[str, tuple[Any, ...]]
    make: Callable[[CitationData, Setting, int, int], tr.Learner]

    def settings(self, count: int, seed: int) -> list[Setting]:
        """Return the usual setting, and others drawn uniformly."""
        draw = random.Random(seed)
        return [self.known] + [
            {key: draw.choice(values) for key, values in self.choices.items()}
            for _ in range(count - 1)
        ]


def convolutions(data: CitationData, width: int, outputs: int, drop: float) -> nn.Module:
    """Return two graph convolutions with dropout, as in Kipf & Welling (2017)."""
    features = data.graph.x
    assert features is not None
    inputs = features.shape[1]
    parts = [G.GraphConv(inputs, width), nn.ReLU(), G.GraphConv(width, outputs)]
    if drop:
        parts = [nn.Dropout(drop), parts[0], nn.ReLU(), nn.Dropout(drop), parts[2]]
    return nn.Sequential(*parts)


def attentions(data: CitationData, heads: int, outputs: int, drop: float) -> nn.Module:
    """Return two attention layers, as in Velickovic et al. (2018)."""
    features = data.graph.x
    assert features is not None
    return nn.Sequential(
        nn.Dropout(drop),
        G.GraphAttention(features.shape[1], 8, n_heads=heads, dropout=drop),
        nn.ELU(),
        nn.Dropout(drop),
        G.GraphAttention(8 * heads, outputs, concat=False, dropout=drop),
    )


def unit_rows(data: CitationData) -> G.Graph:
    """Return the graph with mean square one in each row of features, for closed-form priors."""
    x = data.graph.x
    assert x is not None
    seen = (x > 0).float()
    scaled = seen / seen.norm(dim=1, keepdim=True).clamp_min(1) * x.shape[1] ** 0.5
    return G.Graph(data.graph.edges, scaled)


def _backprop(
    data: CitationData, net: nn.Module, s: Setting, seed: int, classes: int
) -> tr.Learner:
    adam = partial(torch.optim.Adam, weight_decay=s["decay"])
    nodes = G.NodeNetwork(net, data.graph)
    return tr.Backprop(
        nodes, tr.likelihoods.Softmax(classes), lr=s["lr"], optimizer=adam, seed=seed
    )


def gcn(data: CitationData, s: Setting, seed: int, classes: int) -> tr.Learner:
    """Return convolutions trained by Adam."""
    return _backprop(data, convolutions(data, s["width"], classes, s["drop"]), s, seed, classes)


def gat(data: CitationData, s: Setting, seed: int, classes: int) -> tr.Learner:
    """Return attention layers trained by Adam."""
    return _backprop(data, attentions(data, s["heads"], classes, s["drop"]), s, seed, classes)


def tagi(data: CitationData, s: Setting, seed: int, classes: int, members: int = 1) -> tr.Learner:
    """Return convolutions learned in closed form."""
    likelihood = (
        tr.likelihoods.Softmax(classes)
        if s["link"] == "softmax"
        else tr.likelihoods.Categorical(classes, link=s["link"])
    )
    net = convolutions(data, s["width"], likelihood.outputs_needed, s["drop"])
    nodes = G.NodeNetwork(net, unit_rows(data))
    start = {"gain": s["gain"], "relative_variance": s["variance"]}
    if members == 1:
        return tr.TAGI(nodes, likelihood, seed=seed, **start)
    return tr.Ensemble(
        nodes, likelihood, n_estimators=members, learner=tr.TAGI, seed=1_000 * (seed + 1), **start
    )


_ADAM = {"lr": (0.005, 0.01, 0.02), "decay": (5e-4, 1e-3, 2e-3), "epochs": (100, 200, 300)}
_TAGI = Method(
    "TAGI, convolutions",
    {
        "width": 256,
        "link": "softmax",
        "gain": 0.1,
        "variance": 8.0,
        "epochs": 40,
        "batch": 0,
        "drop": 0.0,
    },
    {
        "width": (64, 256),
        "link": ("softmax",),
        "gain": (0.03, 0.1, 0.3),
        "variance": (2.0, 8.0, 16.0),
        "epochs": (20, 40, 80),
        "batch": (0,),
        "drop": (0.0,),
    },
    tagi,
)

METHODS: dict[str, Method] = {
    "tagi": _TAGI,
    "tagi-5": Method("TAGI, five networks", {}, {}, partial(tagi, members=5)),
    "gcn": Method(
        "Backprop, convolutions",
        {"width": 16, "lr": 0.01, "decay": 5e-4, "epochs": 200, "batch": 0, "drop": 0.5},
        {"width": (16, 32, 64), "drop": (0.5, 0.6, 0.7), "batch": (0,), **_ADAM},
        gcn,
    ),
    "gat": Method(
        "Backprop, attention",
        {"heads": 8, "lr": 0.005, "decay": 5e-4, "epochs": 200, "batch": 0, "drop": 0.6},
        {"heads": (8,), "drop": (0.6,), "batch": (0,), **_ADAM},
        gat,
    ),
}
SETTINGS_OF = {"tagi-5": "tagi"}
"""Methods that use the setting selected for another method."""


def fitted(
    name: str,
    data: CitationData,
    setting: Setting,
    seed: int,
    nodes: Tensor,
    y: Tensor,
    *,
    suit: bool = True,
) -> tr.Learner:
    """Fit a method to labeled nodes, and scale its decision noise on validation nodes.

    Args:
        name: of ``METHODS``.
        data: the graph.
        setting: of the method.
        seed: of first weights and draws.
        nodes: labelled nodes.
        y: labels of all nodes; -1 for nodes that no validation counts.
        suit: whether to scale the noise of a decision, or the temperature, on validation nodes.
    """
    classes = int(y.max()) + 1
    learner = METHODS[name].make(data, setting, seed, classes)
    learner.fit(
        nodes,
        y[nodes],
        epochs=setting["epochs"],
        batch_size=setting["batch"] or len(nodes),
        progress=False,
    )
    if suit:
        known = data.validation[y[data.validation] >= 0]
        rows, targets = learner.checks.data(known, y[known])
        scale = holdout.noise_scale(learner, [holdout.held_out_moments(learner, rows, targets)])
        learner.rescale_noise(scale)
    return learner
