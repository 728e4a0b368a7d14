"""The commands of `bassline`. Modules are imported only when their command is called."""
