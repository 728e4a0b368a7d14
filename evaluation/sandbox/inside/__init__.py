"""What runs inside the sandbox: standard library only, Python 3.9 syntax, sent there as source text.

None of these modules may import anything of the project but its neighbours here: they are executed by an
interpreter that has no third-party packages and cannot read the project's files.
"""
