"""Which adapter a process takes, of lists that this machine does not have."""

from types import SimpleNamespace

import pytest

from webgpu_backend import env
from webgpu_backend.runtime import adapters, experimental, vulkan

KINDS = ("DiscreteGPU", "DiscreteGPU", "IntegratedGPU", "CPU")


@pytest.fixture
def several(monkeypatch):
    monkeypatch.setattr(env, "ADAPTER", "")
    monkeypatch.setattr(env, "DEVICES", 0)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return [SimpleNamespace(info={"adapter_type": kind}, number=i) for i, kind in enumerate(KINDS)]


def numbers(choices) -> list[int]:
    return [c.adapter.number for c in choices]


def test_gpus_are_devices_in_order_and_software_adapters_where_there_is_nothing_else(several):
    assert numbers(adapters.choose(several)) == [0, 1, 2]
    assert numbers(adapters.choose(several[3:])) == [3]
    assert adapters.first_index(adapters.choose(several)) == 0


@pytest.mark.parametrize("rank, index", [("0", 0), ("1", 1), ("2", 0), ("3", 1)])
def test_processes_of_a_launcher_begin_with_those_of_the_best_type_in_turn(several, monkeypatch, rank, index):
    monkeypatch.setenv("LOCAL_RANK", rank)
    assert adapters.first_index(adapters.choose(several)) == index


def test_one_of_the_best_type_is_shared(several, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert adapters.first_index(adapters.choose(several[2:])) == 0


def test_the_switch_leaves_one_adapter(several, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(env, "ADAPTER", "3")
    choices = adapters.choose(several)
    assert numbers(choices) == [3] and adapters.first_index(choices) == 0


def test_a_switch_makes_several_devices_of_one_adapter(several, monkeypatch):
    monkeypatch.setattr(env, "DEVICES", 3)
    assert numbers(adapters.choose(several)) == [0, 0, 0]
    monkeypatch.setattr(env, "ADAPTER", "2")
    assert numbers(adapters.choose(several)) == [2, 2, 2]


def test_a_device_that_is_not_there(several, monkeypatch):
    monkeypatch.setattr(adapters, "devices", lambda: adapters.choose(several))
    assert adapters.device(2).adapter.number == 2
    with pytest.raises(RuntimeError, match="invalid device ordinal 3: there are 3 devices"):
        adapters.device(3)


def shown(several, *rows):
    """Adapters of these models, ways and drivers."""
    keys = ("device_id", "backend_type", "description")
    there = [dict(zip(keys, row), adapter_type="DiscreteGPU", vendor_id=0x10DE) for row in rows]
    return [SimpleNamespace(info=info, number=i) for i, info in enumerate(there)]


@pytest.mark.parametrize("rows, expected", [
    ([(7, "Vulkan", "550"), (8, "Vulkan", "550"), (7, "D3D12", "31.0"), (8, "D3D12", "31.0")], [0, 1]),
    ([(7, "D3D12", "31.0"), (7, "Vulkan", "550")], [1]),
    ([(7, "Vulkan", "550"), (7, "Vulkan", "550"), (7, "D3D12", "31.0"), (7, "D3D12", "31.0")], [0, 1]),
    ([(7, "Vulkan", "radv"), (7, "Vulkan", "amdvlk")], [0]),
    ([(7, "D3D12", "31.0"), (8, "Vulkan", "550")], [0, 1]),
    ([(0, "Metal", ""), (0, "Metal", "")], [0, 1]),
], ids=["Windows", "D3D12 first", "two of one model", "two drivers", "one way each", "no numbers"])  # fmt: skip
def test_a_gpu_that_is_shown_twice_is_one_device(several, rows, expected):
    assert numbers(adapters.choose(shown(several, *rows))) == expected


@pytest.fixture
def card(monkeypatch):
    """A card whose units multiply matrices of 16 rows, asked for them."""
    monkeypatch.setattr(env, "MATRIX_UNITS", True)
    monkeypatch.setattr(env, "PROFILE", ())
    monkeypatch.setattr(experimental, "known", lambda: True)
    monkeypatch.setattr(vulkan, "subgroup_width", lambda vendor, device: 32)
    monkeypatch.setattr(vulkan, "matrix_sizes", lambda vendor, device: {8, 16, 32})
    info = dict(vendor_id=0x10DE, device_id=1, device="a card", backend_type="Vulkan", description="")
    return SimpleNamespace(info=info, features={"cooperative-matrix", "shader-f16", "subgroup"})


def test_matrix_units_are_used_where_they_are_asked_for(card, monkeypatch):
    assert adapters.matrix_size(card, ["shader-f16", "subgroup"]) == 16
    monkeypatch.setattr(env, "MATRIX_UNITS", False)
    assert adapters.matrix_size(card, ["shader-f16", "subgroup"]) == 0


@pytest.mark.parametrize("change, why", [
    (lambda card, patch: card.features.remove("cooperative-matrix"), "wgpu shows none"),
    (lambda card, patch: card.info.update(backend_type="D3D12"), "wgpu shows none"),
    (lambda card, patch: patch.setattr(experimental, "known", lambda: False), "no way to its experimental features"),
    (lambda card, patch: patch.setattr(vulkan, "subgroup_width", lambda *_: 0), "how wide its subgroups are"),
    (lambda card, patch: patch.setattr(env, "PROFILE", ("subgroups-16",)), "how wide its subgroups are"),
    (lambda card, patch: patch.setattr(vulkan, "matrix_sizes", lambda *_: {32}), "none multiplies float16"),
])  # fmt: skip
def test_why_matrix_units_are_not_used(card, monkeypatch, change, why):
    change(card, monkeypatch)
    with pytest.warns(UserWarning, match=f"WEBGPU_MATRIX_UNITS=1, but .*{why}.*: a card is used without"):
        assert adapters.matrix_size(card, ["shader-f16", "subgroup"]) == 0


def test_matrix_units_need_float16(card):
    with pytest.warns(UserWarning, match="they need float16 and subgroups"):
        assert adapters.matrix_size(card, ["subgroup"]) == 0
