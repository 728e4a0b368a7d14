"""The code that runs inside the sandbox: standard library only, Python 3.10 or later, sent there as source text.

Its modules may import only each other: the interpreter that executes them has no third-party packages and cannot read
the project's files.
"""
