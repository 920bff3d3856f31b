"""Fourier transforms against the CPU: lengths of every factorisation, norms, dimensions, real and Hermitian signals."""

import pytest
import torch

from tests.device._adapter import kernels_of
from tests.device._compare import close, gradients
from webgpu_backend.kernels.fft import fft

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 32, 48, 17, 22, 30, 37, 64, 97, 101, 169, 210, 1000, 1009, 1024, 4096, 10007]
GENERATOR = torch.Generator().manual_seed(13)


def near(ours, reference, bound=2e-6):
    """Errors are measured against the largest value: each output sums all inputs."""
    assert ours.device.type == "webgpu" and ours.shape == reference.shape and ours.dtype == reference.dtype
    if reference.numel():
        assert (ours.cpu() - reference).abs().max() <= bound * reference.abs().max()


def signal(*shape, dtype=torch.complex64):
    return torch.randn(shape, dtype=dtype, generator=GENERATOR)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length, adapter_class):
    x = signal(3, length, 2)
    g = x.to("webgpu")
    for norm in ("backward", "ortho", "forward"):
        near(torch.fft.fft(g, dim=1, norm=norm), torch.fft.fft(x, dim=1, norm=norm))
        near(torch.fft.ifft(g, dim=1, norm=norm), torch.fft.ifft(x, dim=1, norm=norm))
    r = signal(2, length, dtype=torch.float32)
    near(torch.fft.rfft(r.to("webgpu")), torch.fft.rfft(r))
    h = signal(2, length // 2 + 1)
    near(torch.fft.irfft(h.to("webgpu"), n=length), torch.fft.irfft(h, n=length))


@pytest.mark.parametrize("length", [18, 25, 48, 100, 121, 169, 243, 400, 1155, 3000])
def test_mixed_radices_in_workgroup_memory(length, adapter_of, monkeypatch):
    adapter_of(kind="gpu")
    monkeypatch.setattr(fft, "WORTH", 1)
    x, c, h = signal(5, length, dtype=torch.float32), signal(2, length, 7), signal(3, length // 2 + 1)
    near(torch.fft.rfft(x.to("webgpu")), torch.fft.rfft(x))
    near(torch.fft.fft(c.to("webgpu"), dim=1), torch.fft.fft(c, dim=1))
    near(torch.fft.ifft(c.to("webgpu").mT), torch.fft.ifft(c.mT))
    near(torch.fft.irfft(h.to("webgpu"), n=length), torch.fft.irfft(h, n=length))


@pytest.mark.parametrize("length", [8192, 1 << 17])
def test_two_halves(length, adapter_of):
    adapter_of(kind="gpu")
    x = signal(2, length)
    near(torch.fft.fft(x.to("webgpu"), norm="ortho"), torch.fft.fft(x, norm="ortho"))
    near(torch.fft.ifft(x.to("webgpu")), torch.fft.ifft(x))
    near(torch.fft.rfft(x.real.to("webgpu")), torch.fft.rfft(x.real))
    near(torch.fft.irfft(x.to("webgpu")), torch.fft.irfft(x))


def test_dimensions():
    x, c = signal(4, 5, 6, 7, dtype=torch.float32), signal(4, 5, 6)
    g, d = x.to("webgpu"), c.to("webgpu")
    near(torch.fft.fftn(g), torch.fft.fftn(x))
    near(torch.fft.rfftn(g, dim=(1, 3)), torch.fft.rfftn(x, dim=(1, 3)))
    near(torch.fft.irfftn(d), torch.fft.irfftn(c))
    near(torch.fft.hfft(d), torch.fft.hfft(c))
    near(torch.fft.ihfft(g), torch.fft.ihfft(x))
    near(torch.fft.fft(g, n=11), torch.fft.fft(x, n=11))
    near(torch.fft.fft(g.transpose(0, 3)[1:]), torch.fft.fft(x.transpose(0, 3)[1:]))
    near(torch.fft.fft2(d.conj()), torch.fft.fft2(c.conj()))
    empty = torch.fft.fft(torch.empty(0, 4, device="webgpu"))  # MKL refuses this one
    assert empty.shape == (0, 4) and empty.dtype is torch.complex64
    near(torch.fft.fft(g.int()), torch.fft.fft(x.int()))


def test_gradients():
    x = signal(3, 10, dtype=torch.float32)
    gradients(lambda t: torch.view_as_real(torch.fft.rfft(t)).sum(-1), x)
    gradients(lambda t: torch.fft.irfft(torch.fft.rfft(t) * 2), x)
    gradients(lambda t: torch.fft.irfft(torch.fft.rfft(t), n=9), x)


def test_large_and_input_untouched():
    x = signal(1 << 18)
    g = x.to("webgpu")
    near(torch.fft.fft(g), torch.fft.fft(x))
    close(g, x, 0)
    one = torch.fft.fft(g.reshape(-1, 1))
    one.zero_()
    close(g, x, 0)


@pytest.mark.parametrize(
    "length, options",
    [(64, {}), (64, {"hop_length": 7, "center": False}), (1024, {"normalized": True}), (100, {"hop_length": 100}),
     (96, {"win_length": 50}), (65, {}), (64, {"onesided": False}), (64, {"pad_mode": "constant"})],
    ids=str,
)  # fmt: skip
def test_short_time_transform(length, options, adapter_class):
    x = signal(3, 3000, dtype=torch.float32)
    window = torch.hann_window(options.get("win_length", length))
    for y in (x, x[1], x[:, 5:], x[1:, 3:2900], x.t().contiguous().t()):
        want = torch.stft(y, length, window=window, return_complex=True, **options)
        wide = torch.zeros(2 * len(window)).to("webgpu")
        wide[3 : 3 + len(window)] = window.to("webgpu")
        for ours in (window.to("webgpu"), wide[3 : 3 + len(window)]):
            near(torch.stft(y.to("webgpu"), length, window=ours, return_complex=True, **options), want)


def test_short_time_transforms_of_a_gpu_are_one_kernel(adapter_of):
    adapter_of(kind="gpu")
    x, window = signal(2, 4000, dtype=torch.float32).to("webgpu"), torch.hann_window(512).to("webgpu")
    call = lambda: torch.stft(x, 512, window=window, center=False, return_complex=True)  # noqa: E731
    call()
    assert kernels_of(call) == ["fft_local512_frames_half"]
    x.requires_grad_()
    assert len(kernels_of(call)) > 1


@pytest.mark.parametrize("shape", [(3, 32), (33, 64), (512, 9), (128, 256), (2, 4096), (65, 5)], ids=str)
def test_powers_of_two(shape):
    """Whole transforms in workgroup memory, along rows and down columns, with real and half-spectrum ends."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    z = torch.complex(x, x.flip(-1))
    cases = [
        (x, lambda t: torch.fft.fft(t)),
        (z, lambda t: torch.fft.ifft(t, norm="ortho")),
        (x, lambda t: torch.fft.rfft(t)),
        (x, lambda t: torch.fft.rfft(t, dim=0)),
        (x, lambda t: torch.fft.rfft2(t)),
        (z, lambda t: torch.fft.fft2(t)),
        (z, lambda t: torch.fft.irfft(t, n=shape[1])),
        (z, lambda t: torch.fft.irfft(t, n=shape[0], dim=0)),
        (x[1:], lambda t: torch.fft.rfft(t)),
    ]
    for source, f in cases:
        expected = f(source.to(torch.complex128 if source.is_complex() else torch.float64))
        got = f(source.to("webgpu")).cpu()
        assert got.shape == expected.shape
        assert (got - expected).abs().max() < 2e-6 * expected.abs().max()


@pytest.mark.parametrize("length", [2, 4, 8])
@pytest.mark.parametrize("at", [0, 1])
def test_an_infinity_invents_no_nan(length, at):
    """Of a complex signal. In longer ones the CPU has NaN too, where a part is the difference of two infinities."""
    x = signal(3, length)
    x[1, at] = complex(float("inf"), 0.5)
    for transform in (torch.fft.fft, torch.fft.ifft):
        expected, found = transform(x), transform(x.to("webgpu")).cpu()
        assert not expected.isnan().any() and not found.isnan().any()
        assert torch.equal(found[1].real.isinf() | found[1].imag.isinf(), torch.ones(length, dtype=torch.bool))
