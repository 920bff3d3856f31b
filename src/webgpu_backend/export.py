"""`python -m webgpu_backend.export`: a web page from a saved program of torch.export, or from `module:function`."""

import argparse
import importlib
import os
import sys

import torch

from webgpu_backend.web import export


def _made(source: str) -> tuple:
    """What to export: (module or function, example arguments[, dynamic shapes])."""
    if source.endswith(".pt2"):
        return torch.export.load(source), None
    module, _, function = source.partition(":")
    if not function:
        raise SystemExit(f"{source!r} is neither a .pt2 file nor module:function")
    sys.path.insert(0, os.getcwd())
    found = getattr(importlib.import_module(module), function)()
    if not isinstance(found, tuple) or len(found) not in (2, 3):
        raise SystemExit(f"{source} must return (module or function, example arguments[, dynamic shapes])")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m webgpu_backend.export", description=__doc__)
    parser.add_argument("source", help="program.pt2, or module:function that returns (model, example arguments)")
    parser.add_argument("folder", help="where the page is written; what is there is replaced")
    parser.add_argument("--name", help="the page's title")
    given = parser.parse_args()
    what, args, *sizes = _made(given.source)
    export(what, args, given.folder, *sizes, name=given.name)


if __name__ == "__main__":
    main()
else:
    # `webgpu_backend.export` is the function: importing this module must not put the module in its place.
    sys.modules[__name__] = export  # type: ignore[assignment]
