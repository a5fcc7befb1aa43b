"""The program that supervises one local sandbox: standard library only, shipped as one .pyz."""
