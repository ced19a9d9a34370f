"""Tiny networks in the style of each family of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Builder = Callable[[], tuple[nn.Module, Tensor]]
MODELS: dict[str, Builder] = {}


class Body(nn.Module):
    """A module of a function and its child modules."""

    def __init__(self, function: Any, **children: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def model(*shape: int, **children: Callable[[], nn.Module]) -> Any:
    """Register a forward function, whose name is that of the model."""

    def register(function: Any) -> Any:
        def build() -> tuple[nn.Module, Tensor]:
            torch.manual_seed(0)
            made = {name: make() for name, make in children.items()}
            return Body(function, **made), torch.randn(3, *shape)

        MODELS[function.__name__] = build
        return function

    return register


def _linear(i: int, o: int) -> Callable[[], nn.Module]:
    return lambda: nn.Linear(i, o)


@model(3, 8, 8, a=lambda: nn.Conv2d(3, 4, 3, padding=1), n=lambda: nn.BatchNorm2d(4),
       b=lambda: nn.Conv2d(4, 4, 3, padding=1), o=_linear(4, 2))  # fmt: skip
def residual_network(s: Any, x: Any) -> Any:
    """torchvision: a residual block with in-place activations, and global pooling."""
    h = F.relu(s.n(s.a(x)), inplace=True)
    z = s.b(h)
    z += h
    return s.o(torch.flatten(F.adaptive_avg_pool2d(F.relu_(z), 1), 1))


@model(3, 8, 8, e=lambda: nn.Conv2d(3, 6, 1), d=lambda: nn.Conv2d(6, 6, 3, groups=6, padding=1),
       s1=lambda: nn.Conv2d(6, 2, 1), s2=lambda: nn.Conv2d(2, 6, 1), o=_linear(6, 2))  # fmt: skip
def inverted_residual(s: Any, x: Any) -> Any:
    """torchvision and timm: depthwise convolutions, hard activations, squeeze-and-excitation."""
    h = F.hardtanh(s.d(F.hardswish(s.e(x))), 0, 6, True)
    gate = F.hardsigmoid(s.s2(F.relu6(s.s1(h.mean((2, 3), keepdim=True)))))
    return s.o((h * gate).mean((2, 3)))


@model(3, 8, 8, a=lambda: nn.Conv2d(3, 4, 3, padding=1), b=lambda: nn.Conv2d(2, 2, 1),
       c=lambda: nn.Conv2d(2, 2, 3, padding=1), o=_linear(4, 2))  # fmt: skip
def shuffled_channels(s: Any, x: Any) -> Any:
    """torchvision: half of the channels pass a branch, then the channels are shuffled."""

    def dealt(h: Any) -> Any:
        rows, channels, height, width = h.shape
        h = h.view(rows, 2, channels // 2, height, width).transpose(1, 2).contiguous()
        return h.view(rows, channels, height, width)

    h = F.relu(s.a(x))
    for branch in (s.b, s.c):
        kept, through = h.chunk(2, dim=1)
        h = dealt(torch.cat((kept, branch(through)), dim=1))
    return s.o(h.mean([2, 3]))


@model(4, 8, n=lambda: nn.LayerNorm(8), q=_linear(8, 24), p=_linear(8, 8), o=_linear(8, 2))
def vision_transformer(s: Any, x: Any) -> Any:
    """timm: fused projections, heads, scaled dot product attention."""
    q, k, v = s.q(s.n(x)).reshape(-1, 4, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    z = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 4, 8)
    return s.o((x + s.p(z))[:, 0])


@model(4, 8, q=_linear(8, 8), k=_linear(8, 8), v=_linear(8, 8))
def attention_by_einsum(s: Any, x: Any) -> Any:
    """Attention as in papers, with ``masked_fill``."""
    scores = torch.einsum("bqd,bkd->bqk", s.q(x), s.k(x)) / 8**0.5
    scores = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), -1e9)
    return torch.einsum("bqk,bkd->bqd", scores.softmax(-1), s.v(x))


@model(4, 8, q=_linear(8, 8), k=_linear(8, 8), w=_linear(8, 16), o=_linear(16, 2))
def decoder_block(s: Any, x: Any) -> Any:
    """transformers: explicit RMS norm, rotary positions, gates."""
    h = x * 1
    q, k = s.q(h), s.k(h)
    half = torch.cat((-q[..., 4:], q[..., :4]), -1)
    angle = torch.linspace(0, 1, 8)
    q = q * angle.cos() + half * angle.sin()
    h = F.scaled_dot_product_attention(q, k, k, is_causal=True)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    z = s.w(h)
    return s.o(F.silu(z) * z)


@model(5, 4, m=_linear(8, 6), u=_linear(10, 3))
def message_passing(s: Any, x: Any) -> Any:
    """torch_geometric: gather by edges, scatter to nodes."""
    rows = x.flatten(0, 1)
    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    edges = torch.cat([edges + 5 * i for i in range(len(x))], 1)
    h = s.m(torch.cat([rows[edges[0]], rows[edges[1]]], -1)).relu()
    index = edges[1].unsqueeze(-1).expand_as(h)
    mean = h.new_zeros(len(rows), 6).scatter_reduce_(0, index, h, "mean", include_self=False)
    return s.u(torch.cat([rows, mean], -1)).reshape(-1, 5, 3)


@model(5, 4, a=_linear(8, 1), v=_linear(4, 3))
def graph_attention(s: Any, x: Any) -> Any:
    """torch_geometric: a softmax over the edges of a node, by scattering."""
    rows = x.flatten(0, 1)
    n = len(rows)
    edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
    source, target = torch.cat([edges + 5 * i for i in range(len(x))], 1)
    score = F.leaky_relu(s.a(torch.cat([rows[source], rows[target]], -1)).squeeze(-1), 0.2)
    top = score.new_zeros(n).scatter_reduce(0, target, score.detach(), "amax", include_self=False)
    e = (score - top.index_select(0, target)).exp()
    total = e.new_zeros(n).index_add_(0, target, e) + 1e-16
    weight = e / total.index_select(0, target)
    out = torch.zeros(n, 3).index_add(0, target, s.v(rows)[source] * weight.unsqueeze(-1))
    return out.reshape(-1, 5, 3)


@model(8, e=_linear(8, 4), d=_linear(2, 8))
def variational_autoencoder(s: Any, x: Any) -> Any:
    """User code: noise added by the network."""
    mean, log = s.e(x).chunk(2, -1)
    return s.d(mean + torch.exp(0.5 * log.clamp(-3, 3)) * 0.0)


@model(8, g=_linear(8, 3), e=_linear(8, 6))
def mixture_of_experts(s: Any, x: Any) -> Any:
    """User code: a softmax as weights, and the best two by sorting."""
    weight, best = s.g(x).softmax(-1).topk(2, -1)
    experts = s.e(x).unflatten(1, (3, 2))
    return (weight.unsqueeze(-1) * experts.gather(1, best.unsqueeze(-1).expand(-1, -1, 2))).sum(1)


@model(8, a=_linear(8, 6), b=_linear(6, 2))
def control_flow(s: Any, x: Any) -> Any:
    """User code: conditions, loops and in-place assignments to states."""
    h = s.a(x)
    h = torch.where(h > 0, h, 0.1 * h)
    h[:, 0] = 0.0
    for _ in range(2):
        h = h + 0.1 * torch.tanh(h)
    y = torch.zeros(len(x), 6)
    y[:, :3] = h[:, 3:]
    y[:, 3:] = torch.maximum(h[:, :3], h[:, 3:])
    return s.b(y) if h.mean() > -100 else s.b(-y)


@model(1, 8, 8, c=lambda: nn.Conv2d(1, 2, 3, padding=1), u=lambda: nn.Conv2d(3, 1, 3, padding=1))
def u_net(s: Any, x: Any) -> Any:
    """User code: downsampling, upsampling and a skip connection."""
    h = F.max_pool2d(s.c(x), 2)
    return s.u(torch.cat([x, F.interpolate(h, scale_factor=2, mode="bilinear")], 1))


@model(2, 6, e=_linear(6, 4))
def siamese(s: Any, x: Any) -> Any:
    """User code: angles and distances of embeddings."""
    a, b = F.normalize(s.e(x[:, 0]), dim=-1), s.e(x[:, 1])
    angle = F.cosine_similarity(a, b, dim=-1)
    return torch.stack([angle, torch.cdist(a, b).logsumexp(-1), b.norm(dim=-1)], -1)


@model(6, w=_linear(6, 6))
def monotone(s: Any, x: Any) -> Any:
    """User code: growing sums, and explicit normalization."""
    h = s.w(x)
    h = (h - h.mean(-1, keepdim=True)) / (h.var(-1, keepdim=True) + 1e-5).sqrt()
    return torch.cumsum(F.softplus(h), -1)
