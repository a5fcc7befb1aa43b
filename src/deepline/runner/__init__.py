"""What runs inside a sandbox: standard library only, shipped as one .pyz."""
