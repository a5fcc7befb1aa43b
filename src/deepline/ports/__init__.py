"""What the outside must do for us: one Protocol a file, with its value types."""
