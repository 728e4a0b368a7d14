"""The live stream of a run."""
