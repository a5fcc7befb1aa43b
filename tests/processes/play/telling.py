"""Tells the test what a play really does."""

import socket


def tell(port: int, run: str, word: str) -> None:
    """Have a word written down before going on."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall(f"{run} {word}\n".encode())
        if line.recv(3) != b"ok\n":
            raise ConnectionError("nobody wrote it down")
