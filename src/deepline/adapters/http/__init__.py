"""Ports that speak HTTP: executor tokens, ledger delivery, receipts and sheets."""
