"""What `deepline sandboxes` does: looking at the store and at the providers, and deleting."""
