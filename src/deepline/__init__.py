"""deepline: runs plays in sandboxes and ends every run exactly once, with the truth."""
