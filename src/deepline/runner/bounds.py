"""How much a runner takes, keeps and sends; the gateway's own bounds are as wide or wider."""

OUTPUT_BYTES_MAX = 16 << 20
"""A play's result."""
STEP_BYTES_MAX = 4 << 20
ROW_BYTES_MAX = 1 << 20
"""One row of a sheet, input and output together."""
ROWS_MAX = 1_000_000
"""Rows of one sheet."""
ROW_ERROR_CHARS_MAX = 2_000
ERROR_CHARS_MAX = 4_000
TRACE_CHARS_MAX = 8_000
NAME_CHARS_MAX = 200
"""A sheet or a step."""
BATCH_ROWS_MAX = 200
BATCH_BYTES_MAX = 2 << 20
WAITING_ROWS_MAX = 1_000
WAITING_BYTES_MAX = 8 << 20
"""Rows that are finished but not yet stored; beyond it the row functions wait."""
WORKERS_MAX = 256
MESSAGE_BYTES_MAX = 48 << 20
"""One message between the runner and its play."""
ASKED_AT_ONCE_MAX = 16
"""Questions of a play that wait for an answer."""
LINE_CHARS_MAX = 8 << 10
"""One line of output; longer ones are broken."""
TAIL_LINES_MAX = 200
TAIL_CHARS_MAX = 64 << 10
"""The last log lines, which go with the result."""
ECHO_BYTES_MAX = 1 << 20
"""What the runner repeats of the play's output on its own."""
EVENTS_WAITING_MAX = 2_000
EVENTS_BATCH_MAX = 200
EVENTS_BATCH_BYTES_MAX = 512 << 10
LOG_EVENTS_MAX = 20_000
LOG_EVENTS_PER_S = 200
"""Log lines that go to the gateway; the rest are counted."""
STEPS_TOLD_MAX = 1_000
PAGE_ROWS = 200
BUNDLE_BYTES_MAX = 64 << 20
BUNDLE_FILES_MAX = 5_000
UNPACKED_BYTES_MAX = 256 << 20
LAUNCH_BYTES_MAX = 40 << 20
ANSWER_BYTES_MAX = 40 << 20
"""A page of sheet rows, or the steps of a run."""
