"""Which adapter a process takes, of lists that this machine does not have."""

from types import SimpleNamespace

import pytest

from webgpu_backend import env
from webgpu_backend.runtime import adapters

KINDS = ("DiscreteGPU", "DiscreteGPU", "IntegratedGPU", "CPU")


@pytest.fixture
def several(monkeypatch):
    monkeypatch.setattr(env, "ADAPTER", "")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return [SimpleNamespace(info={"adapter_type": kind}, number=i) for i, kind in enumerate(KINDS)]


def test_a_process_alone_takes_the_first(several):
    assert adapters.choose(several).adapter.number == 0


@pytest.mark.parametrize("rank, number", [("0", 0), ("1", 1), ("2", 0), ("3", 1)])
def test_processes_of_a_launcher_take_those_of_the_best_type_in_turn(several, monkeypatch, rank, number):
    monkeypatch.setenv("LOCAL_RANK", rank)
    choice = adapters.choose(several)
    assert choice.adapter.number == number and f"LOCAL_RANK={rank}" in choice.reason


def test_one_of_the_best_type_is_shared(several, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert adapters.choose(several[2:]).adapter.number == 2


def test_the_switch_comes_first(several, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(env, "ADAPTER", "3")
    assert adapters.choose(several).adapter.number == 3
