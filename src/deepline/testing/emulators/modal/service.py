"""A gRPC service of which a part is emulated; the rest says that it is not."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from google.protobuf.message import Message
from grpclib import GRPCError, Status
from grpclib.server import Stream

Handler: TypeAlias = Callable[[Stream[Any, Any]], Awaitable[None]]
Metadata: TypeAlias = Mapping[str, str | bytes]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Gate: TypeAlias = Callable[[str, Stream[Any, Any], Handler], Awaitable[None]]
"""Runs a handler for a call of that name, or has something go wrong with it."""


def unary(answer: Callable[[Any, Metadata], Awaitable[Message]]) -> Handler:
    """A handler that answers one message with one."""

    async def handle(stream: Stream[Any, Any]) -> None:
        request = await stream.recv_message()
        await stream.send_message(await answer(request, _metadata(stream)))

    return handle


def streaming(answer: Callable[[Any, Send], Awaitable[None]]) -> Handler:
    """A handler that answers one message with many."""

    async def handle(stream: Stream[Any, Any]) -> None:
        request = await stream.recv_message()
        await answer(request, stream.send_message)

    return handle


def build(base: type[Any], handlers: Mapping[str, Handler], gate: Gate) -> Any:
    """An object of the service `base` with these handlers, each behind the gate."""
    names: frozenset[str] = base.__abstractmethods__
    missing = handlers.keys() - names
    assert not missing, f"the service has no {', '.join(sorted(missing))}"
    methods = {name: _method(name, handlers.get(name) or _absent(name), gate) for name in names}
    return type(f"Emulated{base.__name__}", (base,), methods)()


def _method(name: str, handler: Handler, gate: Gate) -> Callable[[Any, Any], Awaitable[None]]:
    async def method(_self: object, stream: Stream[Any, Any]) -> None:
        await gate(name, stream, handler)

    return method


def _absent(name: str) -> Handler:
    async def handle(_stream: Stream[Any, Any]) -> None:
        raise GRPCError(Status.UNIMPLEMENTED, f"the emulator does not have {name}")

    return handle


def _metadata(stream: Stream[Any, Any]) -> Metadata:
    return dict(stream.metadata or {})
