"""The code that runs inside the sandbox: standard library only, Python 3.10 or later, sent there as source text.

Its modules may import only each other: they run where third-party packages may be missing, and where nobody can read
Bassline's files.
"""
