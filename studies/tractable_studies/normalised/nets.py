"""An MLP-mixer: a network of patches that mixes positions and channels, with layer norms."""

from __future__ import annotations

from torch import Tensor, nn


class MixerBlock(nn.Module):
    """Two residual branches: over patches for each channel, and over channels for each patch."""

    def __init__(self, patches: int, channels: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.over_patches = _branch(patches)
        self.over_channels = _branch(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return features of shape ``[rows, patches, channels]``."""
        x = x + self.over_patches(self.first(x).transpose(1, 2)).transpose(1, 2)
        mixed: Tensor = x + self.over_channels(self.second(x))
        return mixed


def _branch(size: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, 2 * size), nn.ReLU(), nn.Linear(2 * size, size))


class Mixer(nn.Module):
    """A mixer of 4 x 4 patches of a 32 x 32 image: four blocks, mean over patches, a head."""

    def __init__(self, outputs: int, channels: int = 64, blocks: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, channels, 4, 4)
        self.blocks = nn.Sequential(*(MixerBlock(64, channels) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(channels), nn.Linear(channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of the head."""
        h = self.blocks(self.patches(x).flatten(2).transpose(1, 2))
        logits: Tensor = self.head(self.norm(h).mean(1))
        return logits
