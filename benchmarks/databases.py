"""PyTorch's databases of things to check on a device: how each is loaded, and how one of its entries is checked."""

from collections.abc import Callable
from dataclasses import dataclass

from . import modulecheck, opcheck, optimcheck


@dataclass(frozen=True)
class Database:
    title: str
    load: Callable[[], list]
    check: Callable
    dtypes: tuple[str, ...] | None = None  # none: those asked for


def _modules() -> list:
    from torch.testing._internal.common_modules import module_db

    return module_db


def _optimizers() -> list:
    from torch.testing._internal.common_optimizers import optim_db

    return optim_db


def _references() -> list:
    from torch.testing._internal.common_methods_invocations import python_ref_db

    return python_ref_db


DATABASES = {
    "op": Database("op_db: operators", opcheck.database, opcheck.check),
    "module": Database("module_db: nn modules", _modules, modulecheck.check, ("float32",)),
    "optim": Database("optim_db: optimizers", _optimizers, optimcheck.check, ("float32",)),
    "ref": Database("python_ref_db: Python references", _references, opcheck.check_ref, ("float32",)),
}
