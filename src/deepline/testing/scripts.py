"""placeholder"""

from deepline.testing.stores import Stores


async def play(stores: Stores, script: object) -> list[str]:
    return []


def write_script() -> None: ...
