"""Import the user's app from a module or a file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from tickwork.errors import WorkerError
from tickwork.registry import AppRegistry

_loading: list[str] = []


def refuse_while_loading() -> None:
    """Raise if a worker's child is importing the calling code, which would start workers recursively."""
    if _loading:
        raise WorkerError(
            f"{_loading[0]} starts a worker while it is imported. Put that part under: if __name__ == '__main__':"
        )


def load_app(target: str) -> AppRegistry:
    """Import `shop.tasks`, `shop.tasks:app` or `shop.py` and return the app in it.

    If there is no app, or the import fails, raises WorkerError with one sentence or the user's own traceback.
    """
    where, _, attribute = target.partition(":")
    _loading.append(where)
    try:
        module = _load(where)
    finally:
        _loading.pop()
    if attribute:
        found = getattr(module, attribute, None)
        if not isinstance(found, AppRegistry):
            raise WorkerError(f"{where} has no Tickwork app named {attribute!r}.")
        return found
    apps = {id(value): value for value in vars(module).values() if isinstance(value, AppRegistry)}
    if len(apps) != 1:
        what = "no Tickwork app" if not apps else f"{len(apps)} Tickwork apps"
        raise WorkerError(f"{where} has {what}. Say which object it is: tickwork worker {where}:app")
    return next(iter(apps.values()))


def _load(where: str) -> ModuleType:
    """Import a file or a module. Raises WorkerError with the traceback of user code."""
    try:
        return _load_file(Path(where)) if where.endswith(".py") else _load_module(where)
    except WorkerError:
        raise
    except BaseException as error:
        trace = error.__traceback__
        while (trace is not None and "importlib" in trace.tb_frame.f_code.co_filename) or (
            trace is not None and trace.tb_frame.f_globals.get("__name__") == __name__
        ):
            trace = trace.tb_next
        told = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
        raise WorkerError(f"{where} could not be imported:\n{told}") from error


def _load_module(name: str) -> ModuleType:
    """Import a module, also from the current folder. Raises WorkerError if it does not exist."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise  # the module exists, but a module that it imports does not
        raise WorkerError(
            f"there is no module {name!r} in {Path.cwd()} or on PYTHONPATH. Is it a file? Say {name}.py"
        ) from None


def _load_file(path: Path) -> ModuleType:
    """Import a file as a module, with its folder on sys.path. Raises WorkerError if it does not exist."""
    if not path.is_file():
        raise WorkerError(f"there is no file {path}.")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise WorkerError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
