"""One call has one time limit and one bound, whatever the other side does."""

import time
from collections.abc import Iterator

import pytest

from deepline.runner.http_call import AnswerTooLong, Caller, CallFailed, Request
from tests.runner.scripted_gateway import (
    Fault,
    Handler,
    ScriptedGateway,
    cut_off,
    dripping,
    dropped,
    times,
)

BEAT = Request(
    "POST", "/api/v1/runner/heartbeat", {"authorization": "Bearer token-zero-secret"}, b"{}"
)


@pytest.fixture
def caller(gateway: ScriptedGateway) -> Iterator[Caller]:
    """A caller of the gateway."""
    caller = Caller(gateway.url)
    yield caller
    caller.close()


def call(caller: Caller, limit_s: float = 5.0, answer_bytes_max: int = 1000) -> bytes:
    """One beat."""
    return caller.call(BEAT, limit_s=limit_s, answer_bytes_max=answer_bytes_max).body


def hanging(handler: Handler) -> bool:
    """Say nothing for a while."""
    time.sleep(1.5)
    handler.hang_up()
    return True


def half_headers(handler: Handler) -> bool:
    """Hang up in the middle of the first lines of an answer that says yes."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx: y\r\n")
    handler.hang_up()
    return True


def slow_headers(handler: Handler) -> bool:
    """Begin an answer whose first lines never end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(30):
        handler.wfile.write(b"x: y\r\n")
        time.sleep(0.05)
    handler.hang_up()
    return True


def test_a_connection_is_kept(gateway: ScriptedGateway, caller: Caller) -> None:
    """Calls of one thread share a connection."""
    for _ in range(5):
        call(caller)

    assert len(gateway.beats) == 5
    assert len(gateway.connections) == 1


def test_a_kept_connection_that_was_closed_is_replaced(
    gateway: ScriptedGateway, caller: Caller
) -> None:
    """A connection that the other side closed meanwhile costs no failure."""
    call(caller)
    gateway.faults = {"POST heartbeat": times(1, dropped)}

    assert b"beat#2" in call(caller)


@pytest.mark.parametrize("fault", [dripping, hanging, slow_headers])
def test_the_limit_is_around_all_of_it(
    gateway: ScriptedGateway, caller: Caller, fault: Fault
) -> None:
    """Neither a silent nor a dripping answer lasts longer than the call may."""
    gateway.faults = {"POST heartbeat": fault}
    began = time.monotonic()

    with pytest.raises(CallFailed):
        call(caller, limit_s=0.3)

    assert time.monotonic() - began < 1.2


@pytest.mark.parametrize("fault", [cut_off, half_headers])
def test_half_an_answer_is_none(gateway: ScriptedGateway, caller: Caller, fault: Fault) -> None:
    """An answer that ends early, wherever, is not taken for a whole one."""
    gateway.faults = {"POST heartbeat": fault}

    with pytest.raises(CallFailed):
        call(caller)


def test_an_answer_that_is_too_long(gateway: ScriptedGateway, caller: Caller) -> None:
    """It is not read beyond the bound, and not asked for again."""
    with pytest.raises(AnswerTooLong):
        call(caller, answer_bytes_max=10)


def test_a_gateway_that_is_away(gateway: ScriptedGateway, caller: Caller) -> None:
    """Nobody listens, or there is no such host: the call failed."""
    gateway.close()

    with pytest.raises(CallFailed):
        call(caller)
    with pytest.raises(CallFailed):
        call(Caller("http://host.invalid:1"))


def test_a_base_path_is_kept(gateway: ScriptedGateway) -> None:
    """An address with a path is a prefix of every call."""
    below = Caller(f"{gateway.url}/below/")
    request = BEAT._replace(path="/x")

    assert below.call(request, limit_s=5, answer_bytes_max=1000).status == 404
    below.close()
    assert gateway.count("POST ") == 1
