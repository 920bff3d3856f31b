"""The MNIST model: an MLP that returns log-probabilities. Knows nothing of devices."""

from torch import Tensor, nn


class Digits(nn.Module):
    """28 x 28 bytes in, ten log-probabilities out."""

    def __init__(self, hidden: tuple[int, int] = (256, 128)) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(28 * 28, hidden[0]),
            nn.ReLU(),
            nn.Linear(hidden[0], hidden[1]),
            nn.ReLU(),
            nn.Linear(hidden[1], 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        """`images` are uint8 (N, 28, 28): a quarter of the bytes to upload, scaled to [0, 1] on the device."""
        pixels = images.flatten(1).float() / 255
        return self.layers(pixels).log_softmax(dim=1)
