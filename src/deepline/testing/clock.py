"""What every `Clock` keeps (Q50).

Asks for `subject`, the clock. Real clocks are waited for, some hundredths of a second in all.
"""

from datetime import timedelta

import trio

from deepline.ports.clock import Clock

SHORT = timedelta(milliseconds=20)


class ClockContract:
    """Asks for `subject`."""

    async def test_now_is_aware(self, subject: Clock) -> None:
        """Wall time is in UTC and says so."""
        assert subject.now().utcoffset() == timedelta(0)

    async def test_time_does_not_run_backwards(self, subject: Clock) -> None:
        """Monotonic time never falls."""
        readings = [subject.monotonic() for _ in range(100)]

        assert readings == sorted(readings)

    async def test_sleep_lasts_at_least_its_length(self, subject: Clock) -> None:
        """A sleep is not over before its time, by either reading."""
        now, seconds = subject.now(), subject.monotonic()

        await subject.sleep(SHORT)

        assert subject.now() - now >= SHORT - timedelta(milliseconds=1)
        assert subject.monotonic() - seconds >= SHORT.total_seconds() - 0.001

    async def test_sleep_is_cancelled_at_once(self, subject: Clock) -> None:
        """A sleep may be cancelled at any moment."""
        with trio.CancelScope() as scope:
            scope.cancel()
            await subject.sleep(timedelta(days=1))

        assert scope.cancelled_caught

    async def test_a_sleep_of_nothing_is_a_checkpoint(self, subject: Clock) -> None:
        """A length of nothing or less does not wait, but lets others run and may be cancelled."""
        for length in (timedelta(0), timedelta(seconds=-5)):
            await subject.sleep(length)
            with trio.CancelScope() as scope:
                scope.cancel()
                await subject.sleep(length)
            assert scope.cancelled_caught
