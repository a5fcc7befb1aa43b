"""What the commands for a person with a play do: submit, watch, look, cancel, explain, demo."""
