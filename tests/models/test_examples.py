"""The programs in examples/, with small settings, and those that train against the same run on the CPU."""

import pytest
import torch

from tests import needs

needs.package("matplotlib")
needs.package("rich")


def test_custom_kernel():
    from examples import custom_kernel

    error, gradient_error, losses = custom_kernel.main(["--steps", "30"])
    assert error < 1e-5 and gradient_error < 1e-4
    assert losses[-1] < 0.5 * losses[0]


def test_char_gpt_follows_the_cpu(tmp_path, capsys):
    from examples import char_gpt

    runs = {}
    for device in ("webgpu", "cpu"):
        plot = tmp_path / f"{device}.png"
        options = ["--steps", "10", "--batch", "4", "--write", "8", "--device", device, "--plot", str(plot)]
        runs[device] = char_gpt.main(options)
        assert plot.stat().st_size > 5000
    (losses, final, written), (expected, expected_final, _) = runs["webgpu"], runs["cpu"]
    assert len(losses) == 10 and losses[-1] < losses[0] - 0.5
    # The same weights and batches: what is left is the rounding, grown by ten steps of Adam.
    assert losses == pytest.approx(expected, abs=5e-3)
    assert final == pytest.approx(expected_final, abs=5e-3)
    assert len(written) == 9 and set(written) <= set(char_gpt.TEXT.read_text(encoding="utf-8"))
    assert "CPU fallbacks  none" in capsys.readouterr().out


def test_generate_streams_the_cpu_s_text(capsys):
    needs.package("transformers")
    from examples import generate

    written, steps = generate.main(["--tokens", "12"])
    assert steps == 13  # the prompt, then every token by itself
    assert written in capsys.readouterr().out
    assert written == generate.main(["--tokens", "12", "--device", "cpu"])[0]


def test_chat_says_what_the_cpu_says(tmp_path, capsys):
    needs.package("transformers")
    from examples import chat

    given = ["--folder", str(tmp_path), "--steps", "2", "--format", "q8_0", "--tokens", "5", "--say", "What news?"]
    said = chat.main([*given, "--device", "cpu"])
    assert len(said) == 1
    assert chat.main([*given, "--say", "And then?"])[0] == said[0]  # the model that is there is not trained again
    assert "tokens/s" in capsys.readouterr().out


def test_image_classification(tmp_path):
    from examples import image_classification

    options = ["--digits", "1000", "--batch", "40", "--test", "200", "--plot", str(tmp_path / "webgpu.png")]
    losses, accuracy = image_classification.main([*options, "--epochs", "1"])
    assert len(losses) == 25 and losses[-1] < 0.5 * losses[0]
    assert accuracy > 0.6
    options = ["--digits", "120", "--batch", "40", "--test", "20", "--epochs", "1", "--plot", str(tmp_path / "3.png")]
    ours, theirs = (image_classification.main([*options, "--device", device])[0] for device in ("webgpu", "cpu"))
    assert ours == pytest.approx(theirs, abs=5e-3)


def test_lora_learns_the_sentence():
    needs.package("peft")
    from examples import lora

    losses, written = lora.main([])
    assert losses[-1] < 0.1
    assert written == lora.SENTENCE
    with torch.random.fork_rng():
        assert losses[:4] == pytest.approx(lora.main(["--steps", "4", "--device", "cpu"])[0], abs=2e-2)


def test_distributed_trains_as_one_process():
    from examples import distributed

    found = distributed.main(["--steps", "4", "--width", "32"])
    alone = found.pop("one process")["losses"]
    assert set(found) == {"ddp", "fsdp", "tensor"} and alone[-1] < alone[0]
    for way, run in found.items():
        assert run["losses"] == pytest.approx(alone, rel=2e-3), way
