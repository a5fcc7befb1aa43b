"""A play that lets go of its sandbox while it waits: for a time, and for somebody's word.

    deepline up                                  # in another terminal
    deepline run examples/approval.py --input order.json --detach
    deepline runs signal RUN approved --data '{"by": "ann"}'

`order.json` holds `{"order": 17, "cents": 4200}`. While the play sleeps and waits it costs nothing.
When it goes on, this function runs again from the top, in a fresh sandbox: what `ctx.step` and
`ctx.once` did before is not done again, and the pauses that are over are passed at once.
"""

import hashlib


def price(order):
    """What the order comes to; in earnest, a call of another system."""
    return {"cents": order["cents"], "quote": hashlib.sha256(repr(order).encode()).hexdigest()[:8]}


def charge(quote):
    """Charge the card; in earnest, a call that must not be made twice."""
    print("charging", quote["cents"])
    return {"invoice": f"INV-{quote['quote']}"}


def play(ctx, input):
    """Quote, let it rest, ask, charge."""
    quote = ctx.step("quote", lambda: price(input))
    ctx.sleep("rest", seconds=input.get("rest_s", 60))
    ctx.log("waiting for approval", cents=quote["cents"])
    try:
        approval = ctx.wait_for("approved", timeout=input.get("patience_s", 7 * 86_400))
    except TimeoutError:
        return {"charged": False, "why": "nobody approved in time"}
    try:
        paid = ctx.once(f"charge order {input['order']}", lambda: charge(quote))
    except ctx.ActionInDoubt as doubt:
        return {"charged": None, "why": str(doubt)}
    return {"charged": True, "invoice": paid["invoice"], "approved_by": approval["by"]}
