"""The operator's commands, one a module; each is loaded only when it is run."""
