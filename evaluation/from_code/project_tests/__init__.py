"""Tasks that the tests of their project judge: which tests cover a function, the files they need, the checks."""
