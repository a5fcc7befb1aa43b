"""The rules: facts in, decisions out, without I/O, clock or chance."""
