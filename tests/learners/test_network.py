"""Running a module with other tensors, as ``torch.func.functional_call`` does."""

import copy
import threading
import time

import pytest
import torch
from torch import nn

from tractable.learners import Network


class Shared(nn.Module):
    """One weight under two names, and a layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.norm(self.second(torch.tanh(self.first(self.first(x)))))


def rows(width: int) -> torch.Tensor:
    return torch.randn(5, width, generator=torch.Generator().manual_seed(2))


def tensors(net: nn.Module) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    named = {n: torch.randn(p.shape, generator=generator) for n, p in net.named_parameters()}
    return named | {n: b.clone() for n, b in net.named_buffers()}


def network() -> Network:
    return Network(Shared(), torch.float32, torch.device("cpu"))


def test_outputs_equal_functional_call():
    run = network()
    net, x = run.module, torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    own = copy.deepcopy(net.state_dict())
    one, other = tensors(net), tensors(net)
    found = run(one, x, train=True)
    wanted = torch.func.functional_call(net, other, (x,))
    assert torch.equal(found, wanted)
    for name in one:  # running statistics changed in the given tensors, not in the module's
        assert torch.equal(one[name], other[name]), name
    assert one["norm.num_batches_tracked"] == 1
    after = net.state_dict()
    assert all(torch.equal(own[name], after[name]) for name in own)
    assert net.second.weight is net.first.weight


def test_gradients_reach_the_given_tensors():
    run = network()
    net = run.module
    given = {
        n: t.requires_grad_() if t.is_floating_point() and "running" not in n else t
        for n, t in tensors(net).items()
    }
    run(given, rows(3)).square().sum().backward()
    assert given["first.weight"].grad is not None
    assert net.first.weight.grad is None


def test_an_error_restores_the_module():
    run = network()
    net = run.module
    weight = net.first.weight
    with pytest.raises(RuntimeError):
        run(tensors(net), rows(4))
    assert net.first.weight is weight
    assert net.second.weight is weight
    with pytest.raises(KeyError, match="third"):
        run({"first.weight": weight * 2, "third": weight}, rows(3))
    assert net.first.weight is weight


def test_threads_run_one_module_sequentially():
    class Slow(nn.Linear):
        def forward(self, x):
            time.sleep(0.002)
            return super().forward(x)

    run = Network(Slow(1, 1), torch.float32, torch.device("cpu"))
    wrong = []

    def work(k: float) -> None:
        given = {"weight": torch.full((1, 1), k), "bias": torch.zeros(1)}
        for _ in range(10):
            if run(given, torch.ones(1, 1)).item() != k:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert copy.deepcopy(run)(tensors(run.module), torch.ones(1, 1)).shape == (1, 1)
