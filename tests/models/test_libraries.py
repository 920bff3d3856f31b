"""Training through peft, accelerate and the transformers Trainer."""

import copy
import os
import subprocess
import sys

import pytest
import torch

from tests import needs

transformers = needs.package("transformers")
peft = needs.package("peft")
accelerate = needs.package("accelerate")

from tests.models import _zoo  # noqa: E402
from webgpu_backend.frontend.integrations import packages  # noqa: E402

D = "webgpu"


@pytest.fixture(scope="module", autouse=True)
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


@pytest.fixture
def chosen(monkeypatch):
    """Accelerate's own switch for the device, and a fresh state for it to be read by."""
    from accelerate.state import AcceleratorState, GradientState, PartialState

    def choose(device):
        for state in (AcceleratorState, PartialState, GradientState):
            state._reset_state()
        if device is None:
            monkeypatch.delenv("ACCELERATE_TORCH_DEVICE", raising=False)
        else:
            monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", device)

    yield choose
    for state in (AcceleratorState, PartialState, GradientState):
        state._reset_state()


def train(model, inputs, steps=4):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# -- peft


def adapted(name, **options):
    model, inputs = _zoo.build(name)
    torch.manual_seed(1)
    return peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM", **options)), inputs


@pytest.mark.parametrize(
    "name, options",
    [
        ("llama", {"target_modules": ["q_proj", "v_proj"]}),
        ("llama", {"target_modules": "all-linear", "use_dora": True}),
        ("gpt2", {"target_modules": ["c_attn"], "fan_in_fan_out": True, "modules_to_save": ["ln_f"]}),
    ],
    ids=["llama", "dora", "gpt2"],
)
def test_lora(name, options, tmp_path):
    model, inputs = adapted(name, **options)
    ours = copy.deepcopy(model).to(D)
    frozen = {n: p.detach().clone() for n, p in ours.named_parameters() if not p.requires_grad}
    moved = _zoo.moved(inputs, D)
    expected = train(model, inputs)
    assert train(ours, moved) == pytest.approx(expected, rel=1e-4)
    assert expected[-1] < expected[0]
    assert all(torch.equal(p, frozen[n]) for n, p in ours.named_parameters() if n in frozen)

    ours.save_pretrained(tmp_path)  # adapters alone
    base, _ = _zoo.build(name)
    loaded = peft.PeftModel.from_pretrained(base.to(D), tmp_path)
    assert {p.device.type for p in loaded.parameters()} == {D}
    logits = ours.eval()(**moved).logits.detach().cpu()
    torch.testing.assert_close(loaded(**moved).logits.detach().cpu(), logits, rtol=1e-5, atol=1e-5)
    merged = loaded.merge_and_unload()
    torch.testing.assert_close(merged(**moved).logits.detach().cpu(), logits, rtol=1e-3, atol=1e-4)


# -- accelerate


class Rows(torch.utils.data.Dataset):
    """Sequences that a model can learn: each counts on from its first token."""

    def __len__(self):
        return 16

    def __getitem__(self, i):
        tokens = (torch.arange(8) * (i % 3 + 1) + i) % 90 + 5
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


def accelerated(choose, device, **options):
    choose(device)
    accelerator = accelerate.Accelerator(gradient_accumulation_steps=2, **options)
    assert accelerator.device.type == device
    model, _ = _zoo.build("llama")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = torch.utils.data.DataLoader(Rows(), batch_size=4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    losses = []
    for batch in (b for _ in range(2) for b in loader):
        assert batch["input_ids"].device.type == device
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
    return losses, accelerator, model


def test_accelerate(chosen, tmp_path):
    expected, *_ = accelerated(chosen, "cpu")
    losses, accelerator, model = accelerated(chosen, D)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert expected[-1] < expected[0]
    accelerator.save_state(tmp_path)
    before = {k: v.cpu() for k, v in model.state_dict().items()}
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    accelerator.load_state(tmp_path)
    assert all(torch.equal(v.cpu(), before[k]) and v.device.type == D for k, v in model.state_dict().items())


@pytest.mark.parametrize("precision, dtype", [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_accelerate_in_mixed_precision(chosen, precision, dtype):
    expected, *_ = accelerated(chosen, "cpu")
    scale = accelerate.utils.GradScalerKwargs(init_scale=256.0)  # fits at once: no step is skipped
    losses, accelerator, model = accelerated(chosen, D, mixed_precision=precision, kwargs_handlers=[scale])
    assert accelerator.mixed_precision == precision
    assert (accelerator.scaler is not None) == (precision == "fp16")
    with accelerator.autocast():
        assert (torch.ones(2, 2, device=D) @ torch.ones(2, 2, device=D)).dtype is dtype
    assert losses == pytest.approx(expected, rel=5e-2)
    assert losses != expected


def test_dispatching_a_model_over_device_and_host(chosen):
    chosen(D)
    model, inputs = _zoo.build("llama")
    expected = model(**inputs).logits.detach()
    places = {"model.embed_tokens": D, "model.layers.0": D, "model.layers.1": "cpu", "model.norm": D}
    places |= {"lm_head": D, "model.rotary_emb": D}
    model = accelerate.dispatch_model(model, places, main_device=D)
    logits = model(**_zoo.moved(inputs, D)).logits.detach()
    assert logits.device.type == D
    torch.testing.assert_close(logits.cpu(), expected, rtol=1e-4, atol=1e-5)


# -- the transformers Trainer


def trainer(choose, device, folder, **options):
    choose(device)
    model, _ = _zoo.build("gpt2")
    for config in ("attn_pdrop", "embd_pdrop", "resid_pdrop"):
        setattr(model.config, config, 0.0)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    arguments = transformers.TrainingArguments(
        output_dir=folder, per_device_train_batch_size=4, max_steps=6, learning_rate=3e-3, logging_steps=1,
        save_steps=3, eval_strategy="steps", eval_steps=3, report_to=[], disable_tqdm=True, warmup_steps=1, seed=3,
        gradient_accumulation_steps=2, **options,
    )  # fmt: skip
    return transformers.Trainer(model, arguments, train_dataset=Rows(), eval_dataset=Rows())


def curve(t, key="loss"):
    return [entry[key] for entry in t.state.log_history if key in entry]


def test_trainer(chosen, tmp_path):
    reference = trainer(chosen, "cpu", tmp_path / "cpu")
    reference.train()
    ours = trainer(chosen, D, tmp_path / "ours")
    assert ours.args.device.type == D
    ours.train()
    assert {p.device.type for p in ours.model.parameters()} == {D}
    assert curve(ours) == pytest.approx(curve(reference), rel=1e-3)
    assert curve(ours, "eval_loss") == pytest.approx(curve(reference, "eval_loss"), rel=1e-3)
    assert len(curve(ours)) == 6 and curve(ours)[-1] < curve(ours)[0]

    again = trainer(chosen, D, tmp_path / "ours")
    again.train(resume_from_checkpoint=str(tmp_path / "ours" / "checkpoint-3"))
    assert curve(again) == pytest.approx(curve(ours), rel=1e-4)
    logits = again.predict(Rows()).predictions
    assert logits.shape == (16, 8, _zoo.VOCABULARY)


@pytest.mark.parametrize("options", [{"fp16": True}, {"bf16": True}, {"gradient_checkpointing": True}], ids=str)
def test_trainer_options(chosen, tmp_path, options):
    reference = trainer(chosen, "cpu", tmp_path / "cpu")
    reference.train()
    ours = trainer(chosen, D, tmp_path / "ours", **options)
    ours.train()
    if "fp16" in options:  # the scaler may skip steps until its scale fits
        assert curve(ours)[-1] < curve(ours)[0] and ours.accelerator.scaler.is_enabled()
        return
    assert curve(ours) == pytest.approx(curve(reference), rel=3e-2 if "bf16" in options else 1e-3)


# -- a script that names no device


@pytest.mark.parametrize("worth", [True, False])
def test_the_device_of_a_script_that_names_none(chosen, monkeypatch, tmp_path, worth):
    """A GPU is picked as CUDA would be; a software adapter, slower than the CPU it runs on, is not."""
    chosen(None)
    monkeypatch.setattr(packages, "_chosen", lambda: worth)
    expected = D if worth else "cpu"
    assert accelerate.Accelerator().device.type == expected
    assert transformers.TrainingArguments(output_dir=tmp_path).device.type == expected
    chosen(None)
    assert transformers.TrainingArguments(output_dir=tmp_path, use_cpu=True).device.type == "cpu"
    chosen(None)
    assert accelerate.Accelerator(cpu=True).device.type == "cpu"

    model, _ = _zoo.build("qwen2")
    model.save_pretrained(tmp_path / "model")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model", device_map="auto")
    assert {p.device.type for p in loaded.parameters()} == {expected}


def test_packages_that_were_imported_first(tmp_path):
    """They have bound one another's functions by name before the device exists."""
    script = f"""
import safetensors.torch, accelerate, transformers, transformers.training_args, torch, sys
assert "webgpu_backend" not in sys.modules
import webgpu_backend
safetensors.torch.save_file({{"a": torch.arange(3)}}, {str(tmp_path / "x")!r})
assert safetensors.torch.load_file({str(tmp_path / "x")!r}, device="webgpu")["a"].device.type == "webgpu"
assert transformers.training_args.is_torch_bf16_gpu_available()
"""
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
