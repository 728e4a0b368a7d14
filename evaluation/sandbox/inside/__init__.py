"""The code that runs inside the sandbox (and `facts`, which runs on its interpreter before there is a sandbox):
standard library only, Python 3.10 or later, sent there as source text.

Its modules may import the standard library and each other alone: they run where third-party packages may be missing,
and where nobody can read Bassline's files.
"""
