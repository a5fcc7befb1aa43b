"""What every `ExecutorTokens` keeps (C16, I45, I46).

Asks for `subject`, a `TokensSubject`: an issuer, and a launch with a live attempt and one that
is over.
"""

import attrs

from deepline.core.model.identity import AttemptRef
from deepline.core.model.launch import Launch
from deepline.ports.errors import Refused
from deepline.ports.executor_tokens import ExecutorTokens
from deepline.testing.refusals import refused


@attrs.frozen(kw_only=True)
class TokensSubject:
    """`live` and `over` are attempts of the run of `launch`."""

    tokens: ExecutorTokens
    launch: Launch
    live: AttemptRef
    over: AttemptRef


class ExecutorTokensContract:
    """Asks for `subject`."""

    async def test_a_live_attempt_gets_a_token(self, subject: TokensSubject) -> None:
        """A live attempt gets a token that is not empty, as often as it asks."""
        for _ in range(2):
            token = await subject.tokens.mint(subject.launch, subject.live)
            assert token.value

    async def test_a_token_is_not_shown(self, subject: TokensSubject) -> None:
        """Neither `repr` nor `str` of a token shows it (I46)."""
        token = await subject.tokens.mint(subject.launch, subject.live)

        assert token.value not in repr(token)
        assert token.value not in str(token)

    async def test_an_attempt_that_is_over_gets_none(self, subject: TokensSubject) -> None:
        """A refusal is deterministic: it is not to be waited out (C16, I19)."""
        problem = await refused(subject.tokens.mint(subject.launch, subject.over), Refused)

        assert subject.over.lease_token.value not in str(problem)
