"""The Lightning Trainer with `accelerator="webgpu"`."""

import pytest
import torch
from torch import nn

from tests import needs

lightning = needs.package("lightning.pytorch")

from webgpu_backend.frontend.integrations import packages  # noqa: E402

D = "webgpu"
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("quiet")]


@pytest.fixture
def quiet(caplog):
    caplog.set_level("ERROR", logger="lightning.pytorch")


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        # No bias before a batch norm: it has no gradient but rounding errors, which Adam would scale up.
        self.net = nn.Sequential(nn.Linear(4, 16, bias=False), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 1))
        self.losses, self.devices, self.dtypes = [], set(), set()

    def loss(self, batch):
        x, y = batch
        out = self.net(x)
        self.devices |= {x.device.type, out.device.type}
        self.dtypes.add(out.dtype)
        return nn.functional.mse_loss(out.float(), y)

    def training_step(self, batch, index):
        loss = self.loss(batch)
        self.losses.append(loss.item())
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("validation", self.loss(batch))

    def predict_step(self, batch, index):
        return self.net(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def loader():
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)


def trainer(folder, accelerator, **options):
    return lightning.Trainer(
        accelerator=accelerator, devices=1, max_epochs=options.pop("max_epochs", 2), default_root_dir=folder,
        logger=False, enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0, **options,
    )  # fmt: skip


def fitted(folder, accelerator, **options):
    model = Regression()
    t = trainer(folder, accelerator, **options)
    t.fit(model, loader(), loader())
    return model, t


@pytest.mark.parametrize(
    "precision, dtype", [("32-true", None), ("16-mixed", torch.float16), ("bf16-mixed", torch.bfloat16)]
)
def test_fitting(tmp_path, precision, dtype):
    expected, reference = fitted(tmp_path, "cpu")
    model, ours = fitted(tmp_path, D, precision=precision)
    assert ours.strategy.root_device == torch.device(D, 0) and model.devices == {D}
    assert model.dtypes == {dtype or torch.float32}
    assert sum(model.losses[4:]) < sum(model.losses[:4])  # the second epoch
    if dtype is torch.float16:  # the scaler skips steps until its scale fits, which the CPU's run does not
        assert ours.precision_plugin.scaler.get_scale() < 2.0**16
        return
    tolerance = 1e-4 if dtype is None else 3e-2
    assert model.losses == pytest.approx(expected.losses, rel=tolerance)
    metric = reference.callback_metrics["validation"].item()
    assert ours.callback_metrics["validation"].item() == pytest.approx(metric, rel=tolerance)


def test_resuming(tmp_path):
    whole, _ = fitted(tmp_path / "whole", D, max_epochs=3)
    first, t = fitted(tmp_path / "first", D, max_epochs=1)
    t.save_checkpoint(tmp_path / "c.ckpt")
    second = Regression()
    trainer(tmp_path / "second", D, max_epochs=3).fit(second, loader(), loader(), ckpt_path=tmp_path / "c.ckpt")
    assert first.losses + second.losses == pytest.approx(whole.losses, rel=1e-5)
    predictions = torch.cat(trainer(tmp_path, D).predict(second, loader()))
    torch.testing.assert_close(predictions.cpu(), torch.cat(trainer(tmp_path, "cpu").predict(second, loader())))


@pytest.mark.parametrize("worth", [True, False])
def test_auto(tmp_path, monkeypatch, worth):
    monkeypatch.setattr(packages, "_chosen", lambda: worth)
    assert trainer(tmp_path, "auto").strategy.root_device.type == (D if worth else "cpu")


def test_one_device(tmp_path):
    with pytest.raises(ValueError, match="a process trains on one device"):
        lightning.Trainer(accelerator=D, devices=2, logger=False)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_fabric(precision):
    fabric = needs.package("lightning.fabric")
    curves = []
    for accelerator in (D, "cpu"):
        run = fabric.Fabric(accelerator=accelerator, devices=1, precision=precision)
        run.launch()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        model, optimizer = run.setup(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        rows = run.setup_dataloaders(torch.utils.data.DataLoader(torch.arange(64.0).reshape(16, 4) / 64, batch_size=4))
        losses = []
        for x in rows:
            assert x.device.type == accelerator
            optimizer.zero_grad()
            loss = model(x).float().square().sum()
            run.backward(loss)
            run.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            losses.append(loss.item())
        curves.append(losses)
    assert curves[0] == pytest.approx(curves[1], rel=1e-5 if precision == "32-true" else 3e-2)
