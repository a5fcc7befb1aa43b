"""The rules: facts in, decisions out. No I/O, no clock, no chance; attrs and the standard library only."""
