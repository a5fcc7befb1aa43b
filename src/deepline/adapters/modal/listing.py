"""Listing our sandboxes by their labels, a page at a time (C46, F66)."""

from collections.abc import Mapping, Sequence

from deepline.adapters.modal import labels
from deepline.adapters.modal.client import Opened
from deepline.adapters.modal.session import Session
from deepline.core.model.sandbox import SandboxRef
from deepline.ports.sandbox_provider import OwnedPage, OwnedSandbox

PAGE = 50
LISTED_MAX = 20_000


async def owned(session: Session, after: str | None) -> OwnedPage:
    """The running sandboxes that carry our label, in the order of their ids from `after` on.

    The client lists ids and nothing more, from the beginning each time, at most `LISTED_MAX` of
    them; labels are read for the page alone. One that ends meanwhile is left out, and so is one
    whose labels say that it is not ours. Raises port errors.
    """
    opened = await session.opened()
    ids = await session.call(lambda: _ids(session, opened), "list sandboxes", has_effect=False)
    rest = sorted(one for one in ids if after is None or one > after)
    page = rest[:PAGE]
    found = await session.call(
        lambda: _labels(opened, page), "read the labels of sandboxes", has_effect=False
    )
    owner = labels.ownership(session.account.owner).items()
    ours = {one: tags for one, tags in found.items() if owner <= tags.items()}
    return OwnedPage(
        sandboxes=[_owned(await session.ref(one), tags) for one, tags in ours.items()],
        after=page[-1] if len(rest) > len(page) else None,
    )


async def _ids(session: Session, opened: Opened) -> Sequence[str]:
    listed = opened.modal.Sandbox.list.aio(
        app_id=opened.app.app_id,
        tags=dict(labels.ownership(session.account.owner)),
        client=opened.client,
    )
    found: list[str] = []
    async for handle in listed:
        found.append(handle.object_id)
        if len(found) >= LISTED_MAX:
            break
    return found


async def _labels(opened: Opened, ids: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    missing: type[Exception] = opened.modal.exception.NotFoundError
    found: dict[str, Mapping[str, str]] = {}
    for sandbox_id in ids:
        try:
            handle = await opened.modal.Sandbox.from_id.aio(sandbox_id, client=opened.client)
            found[sandbox_id] = await handle.get_tags.aio()
        except missing:
            continue
    return found


def _owned(ref: SandboxRef, tags: Mapping[str, str]) -> OwnedSandbox:
    return OwnedSandbox(
        ref=ref,
        name=tags.get(labels.NAME, ""),
        operation_token=tags.get(labels.TOKEN),
        run_id=tags.get(labels.RUN),
        created_at=labels.created_at(tags),
        mark=tags.get(labels.MARK),
    )
