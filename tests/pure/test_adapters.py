"""Which adapter a process takes, of lists that this machine does not have."""

from types import SimpleNamespace

import pytest

from webgpu_backend import env
from webgpu_backend.runtime import adapters

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
