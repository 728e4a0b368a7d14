"""The commands of `bassline`, one file per word. Modules are imported only when their command is called."""
