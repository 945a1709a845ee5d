"""What `tickwork` exports."""

import inspect

import tickwork
from tickwork import errors


def test_every_error_is_exported() -> None:
    raised = {name for name, one in vars(errors).items() if inspect.isclass(one) and issubclass(one, BaseException)}
    assert raised <= set(tickwork.__all__)
    assert all(getattr(tickwork, name) is getattr(errors, name) for name in raised)
