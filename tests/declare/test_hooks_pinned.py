"""A message at a hook can be a part of a path, and never say where a credential is sent."""

import msgspec

from tickwork.core.hooks import Hook
from tickwork.declare.hooks import arguments_of


def test_the_worker_is_told_the_origin_that_a_hook_declares() -> None:
    args = msgspec.json.encode({"url": "https://x.example/${body.path}", "auth": {"bearer": "t"}}).decode()
    hook = Hook(name="h", style="github", secret="S", target="http", args=args)
    values = {"body": msgspec.Raw(b'{"path":"a"}'), "event": msgspec.Raw(b"null"), "headers": msgspec.Raw(b"{}")}
    made = arguments_of(hook, values)
    assert made == {"url": "https://x.example/a", "auth": {"bearer": "t"}, "origin": "https://x.example"}
