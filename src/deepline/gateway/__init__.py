"""The HTTP application: tokens, runner API, ledger, public API."""
