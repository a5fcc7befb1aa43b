"""What a play says reaches people, within bounds and without its secrets."""

import json

import pytest

from tests.runner.running import Stage
from tests.runner.scripted_gateway import ScriptedGateway, problem

pytestmark = pytest.mark.processes


def test_what_a_play_says(stage: Stage, gateway: ScriptedGateway) -> None:
    """Logged and printed lines come to the gateway, the result and the output."""
    running = stage.run(
        """
        import sys

        def play(ctx, input):
            ctx.log("hello", count=3, odd={1, 2})
            print("to stdout")
            print("to stderr", file=sys.stderr)
            print("no end", end="")
            ctx.progress(1, 4, failed=1)
        """
    )

    assert gateway.logged("log") == ["hello"]
    (logged,) = [p for p in gateway.payloads("log") if p["stream"] == "log"]
    assert logged["fields"] == {"count": 3, "odd": "{1, 2}"}
    assert gateway.logged("stdout") == ["to stdout", "no end"]
    assert gateway.logged("stderr") == ["to stderr"]
    (progress,) = gateway.payloads("progress")
    assert {k: progress[k] for k in ("done", "total", "failed")} == {
        "done": 1,
        "total": 4,
        "failed": 1,
    }
    assert sorted(running.terminal["logs"]) == sorted(
        ['hello {"count": 3, "odd": "{1, 2}"}', "to stdout", "to stderr", "no end"]
    )
    assert "to stderr" in running.output


def test_secrets_are_not_told(stage: Stage, gateway: ScriptedGateway) -> None:
    """A play may use its secrets; nothing that it says or fails with shows them."""
    secrets = {"KEY": "sk-very'secret", "PEM": "-----BEGIN-----\nMIIabcdef123\n-----END-----\n"}
    running = stage.run(
        """
        import base64, json

        def play(ctx, input):
            key, pem = ctx.secrets["KEY"], ctx.secrets["PEM"]
            print("plain", key)
            print("twice", repr({"k": key}), json.dumps(key), base64.b64encode(key.encode()))
            print(pem)
            print("x" * 8180 + key + "y" * 9000)
            ctx.log(key, value=[key])
            print(ctx.secrets, len(ctx.secrets), sorted(ctx.secrets))
            print("z" * 8185 + key, end="")
            rows = ctx.map("rows", [1], lambda row: int(key))
            raise RuntimeError(key)
        """,
        secrets=secrets,
    )

    said = json.dumps(gateway.events) + json.dumps(running.left_behind) + running.output
    for part in ("very'secret", "MIIabcdef", "c2stdmVyeSdzZWNyZXQ", "sk-very", "secret-very"):
        assert part not in said
    assert "very'secret" not in json.dumps(gateway.sheets)
    assert "<secrets: KEY, PEM> 2 ['KEY', 'PEM']" in gateway.logged("stdout")
    assert running.terminal["error"] == "PLAY_FAILED: RuntimeError: [secret]"


def test_secrets_are_not_in_what_people_download(stage: Stage, gateway: ScriptedGateway) -> None:
    """Result and rows hold no secret; what only the play reads again is left as it is."""
    running = stage.run(
        """
        def play(ctx, input):
            key = ctx.secrets["KEY"]
            ctx.map("rows", [{"key": key, "n": 12345}], lambda row: [row["key"]])
            ctx.step("login", lambda: key)
            ctx.once("order", lambda: key)
            return {"url": f"https://x/?key={key}", key: 1, "number": "12345 and 1234"}
        """,
        secrets={"KEY": "sk-very-secret", "PIN": "1234"},
    )

    assert running.terminal["output"] == {
        "url": "https://x/?key=[secret]",
        "[secret]": 1,
        "number": "12345 and 1234",
    }
    (row,) = gateway.sheets["rows"].values()
    assert (row["inputRow"], row["output"]) == ({"key": "[secret]", "n": 12345}, ["[secret]"])
    assert gateway.steps == {"login": "sk-very-secret"}
    assert gateway.receipts["order"]["output"] == "sk-very-secret"
    assert "sk-very-secret" not in str(running.left_behind)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(30_000, id="3-megabytes"),
        pytest.param(1_000_000, id="100-megabytes", marks=pytest.mark.slow),
    ],
)
def test_endless_printing(stage: Stage, gateway: ScriptedGateway, lines: int) -> None:
    """A play that prints without end is not slowed down for ever, and fills nothing."""
    running = stage.run(
        f"""
        import sys

        def play(ctx, input):
            sys.stdout.reconfigure(line_buffering=False)
            for number in range({lines}):
                sys.stdout.write(f"{{number:08d}} " + "x" * 90 + "\\n")
            return "printed"
        """
    )

    assert running.terminal["output"] == "printed"
    assert running.terminal["stats"]["logLines"] == lines
    assert len(running.output) < 1_200_000
    assert running.terminal["logs"][-1].startswith(f"{lines - 1:08d} ")
    assert len(json.dumps(running.terminal)) < 100_000
    assert running.output.rstrip().endswith("x")
    assert "lines left out" in running.output
    assert len(gateway.payloads("log")) < 3_000
    assert any("were left out here" in text for text in gateway.logged("runner"))


def test_a_line_without_an_end(stage: Stage, gateway: ScriptedGateway) -> None:
    """A long line is broken into bearable parts, and nothing of it is lost."""
    running = stage.run("def play(ctx, input): print('0123456789' * 100_000)")

    parts = gateway.logged("stdout")
    assert "".join(parts) == "0123456789" * 100_000
    assert max(map(len, parts)) <= 8_192
    assert running.terminal["status"] == "completed"


def test_bytes_that_are_no_text(stage: Stage, gateway: ScriptedGateway) -> None:
    """What is printed is stored as text whatever it was."""
    stage.run(
        """
        import os

        def play(ctx, input):
            os.write(1, b"a\\xff\\x00b\\r\\n")
            ctx.log("c\\0\\ud800", **{"d\\0": "\\udfff"})
        """
    )

    assert gateway.logged("stdout") == ["a\ufffd\ufffdb"]
    assert gateway.logged("log") == ["c\ufffd?"]


def test_logging_never_fails(stage: Stage, gateway: ScriptedGateway) -> None:
    """A line is logged whatever is to be logged."""
    stage.run(
        """
        class Bad:
            def __str__(self):
                raise ValueError
            __repr__ = __str__

        def play(ctx, input):
            ctx.log(Bad(), bad=Bad(), huge=10 ** 9999, long="x" * 99_999, self=1, text=2)
            ctx.log(ValueError("why"))
            ctx.log("y" * 99_999)
        """
    )

    first, second, third = gateway.logged("log")
    assert (first, second) == ("(no description)", "why")
    assert len(third) == 8_192
    fields = gateway.payloads("log")[0]["fields"]
    assert (fields["bad"], fields["huge"]) == ("(no description)", "(no description)")
    assert len(fields["long"]) == 8_192
    assert (fields["self"], fields["text"]) == (1, 2)


def test_a_gateway_that_takes_no_events(stage: Stage, gateway: ScriptedGateway) -> None:
    """Events decide nothing: without them a run ends as well as with them."""
    gateway.faults = {"POST events": problem(429, "event_quota")}

    running = stage.run("def play(ctx, input):\n    ctx.log('x')\n    return 1")

    assert running.terminal["output"] == 1
    assert running.terminal["logs"] == ["x"]
    assert gateway.count("POST events") == 1


def test_progress_of_a_map_is_told_a_few_times(stage: Stage, gateway: ScriptedGateway) -> None:
    """Many quick rows make few events, the last of which is the whole."""
    stage.run("def play(ctx, input): ctx.map('rows', range(3_000), lambda r: 1 // (r % 3))")

    told = gateway.payloads("progress")
    assert len(told) <= 20
    assert {k: told[-1][k] for k in ("name", "done", "total", "failed")} == {
        "name": "rows",
        "done": 3_000,
        "total": 3_000,
        "failed": 1_000,
    }
    assert [p["done"] for p in told] == sorted(p["done"] for p in told)
