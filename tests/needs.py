"""What a test needs of the machine that it runs on. Where that is missing the test is skipped, and the reason says what
is missing here; the reasons of all skipped tests end the output of `./dev test`.
"""

import inspect
import os
import shutil
import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
import torch

# Packages that are in no extra of pyproject.toml, and where the tests that need them are run.
ELSEWHERE = {
    "torchvision": "PyPI's build of it cannot be loaded beside a torch without CUDA's libraries: run by hand where "
    "torch has them (`pytest tests/models/test_vision.py -k torchvision`)",
}
FEATURES = {
    "f16": "shader-f16",
    "f32_atomic": "atomic additions of f32",
    "f64": "shader-f64",
    "i64": "shader-int64",
    "matrix": "matrix units that may be used (WEBGPU_MATRIX_UNITS=1, on an adapter that has some)",
    "subgroups": "subgroups of eight lanes or more",
}


def package(name: str) -> ModuleType:
    """The package, imported."""
    if find_spec(name.partition(".")[0]) is None:
        where = ELSEWHERE.get(name, "`./dev setup` installs what the tests need")
        missing(f"the package {name} is not installed here; {where}")
    return import_module(name)


def compiler() -> str:
    """A C++ compiler, which only tests have a use for: the one that CXX names, or g++."""
    if (found := shutil.which(os.environ.get("CXX", "g++"))) is None:
        missing(f"there is no {os.environ.get('CXX', 'g++')} here")
    return found


def quantized_cache(backend: str) -> None:
    """A backend of transformers' quantised cache."""
    made = package("transformers").cache_utils.QuantizedCache.__init__
    if f'"{backend}"' not in inspect.getsource(made):
        missing(f"this version of transformers has no quantised cache of the kind {backend}")


def feature(name: str) -> None:
    """Something optional of the adapter, by its name in `Caps`."""
    from webgpu_backend.runtime.gpu import gpu

    if not getattr(gpu().caps, name):
        missing(f"{gpu().name} has no {FEATURES[name]} {_as_opened()}".rstrip())


def limit(name: str, least: int) -> None:
    """A limit of the adapter, by its name in `Caps`."""
    from webgpu_backend.runtime.gpu import gpu

    if getattr(gpu().caps, name) < least:
        missing(f"{gpu().name} has {name} below {least} {_as_opened()}".rstrip())


@contextmanager
def float64_if_asked():
    """For tests of which some make float64 tensors: those are skipped where the device refuses them."""
    try:
        yield
    except TypeError as error:
        if "float64 needs an adapter" not in str(error):
            raise
        feature("f64")
        raise


def timestamps() -> None:
    if not torch.webgpu.profiler.is_available():
        missing(f"{torch.webgpu.get_device_name()} has no timestamp-query {_as_opened()}".rstrip())


CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium() -> str:
    """The path of a Chromium; `CHROMIUM` names one that is not on the path."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    return found or missing("no Chromium is installed here; on Debian: apt-get install chromium")


def node(name: str = "webgpu") -> dict[str, str]:
    """Node and a package of it: `webgpu` is Dawn."""
    node, package = shutil.which("node"), Path(sys.prefix) / "node" / "node_modules" / name
    if node is None or not package.is_dir():
        missing(f"Node with its package {name} is not installed here: npm install --prefix {sys.prefix}/node {name}")
    return {"node": node, "package": str(package)}


def dawn() -> dict[str, str]:
    """Dawn for Node, and a software driver that it takes, which is Chromium's."""
    driver = Path(chromium()).resolve().parent / "vk_swiftshader_icd.json"
    drivers = [driver, Path("/usr/lib/chromium/vk_swiftshader_icd.json")]
    driver = next((path for path in drivers if path.is_file()), None)
    if driver is None:
        missing("this Chromium comes without SwiftShader, the software driver for Dawn")
    return {**node(), "driver": str(driver)}


def lavapipe() -> str:
    """A llvmpipe for Dawn, which has float16 and subgroups: the one that `./dev test` unpacks, else the system's."""
    folders = [Path(sys.prefix) / "mesa", Path("/usr/share/vulkan/icd.d")]
    found = next((str(path) for folder in folders for path in sorted(folder.glob("lvp*.json"))), None)
    return found or missing("Mesa's llvmpipe is not installed here")


def torch_tests() -> Path:
    """The folder of PyTorch's own tests, which are no part of this project."""
    folder = os.environ.get("WEBGPU_TORCH_TESTS", "")
    if not folder:
        missing("WEBGPU_TORCH_TESTS names no folder: `test/` of PyTorch at the tag of the installed torch is not here")
    return Path(folder)


def newer_torch(version: str, why: str) -> None:
    if tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) < tuple(map(int, version.split("."))):
        missing(f"torch {torch.__version__} is older than {version}: {why}")


def missing(what: str) -> NoReturn:
    pytest.skip(what, allow_module_level=True)


def _as_opened() -> str:
    from webgpu_backend import env

    switches = {"WEBGPU_BASELINE": "1" if env.BASELINE else "", "WEBGPU_PROFILE": ",".join(env.PROFILE)}
    given = " ".join(f"{name}={value}" for name, value in switches.items() if value)
    return f"as it is opened with {given}" if given else ""
