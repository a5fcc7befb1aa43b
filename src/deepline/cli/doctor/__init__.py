"""`deepline doctor`: what a deployment needs, checked one thing at a time."""
