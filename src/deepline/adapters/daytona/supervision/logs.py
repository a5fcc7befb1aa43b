"""The end of what the runner printed, for whoever asks why it died (C44)."""

from pathlib import Path

READ_BYTES = 32 << 10


def last_lines(home: Path) -> dict[str, object]:
    """The last lines of both streams, oldest first; the first of each may be cut."""
    return {stream: _end(home / f"{stream}.log") for stream in ("stdout", "stderr")}


def _end(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - READ_BYTES))
            return file.read(READ_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []
