"""The nouns of the domain: launch, run, attempt, suspension, result, sandbox, ledger event."""
