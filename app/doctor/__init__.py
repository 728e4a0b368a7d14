"""The checks of `bassline doctor`: what works on this machine, and how to repair the rest."""
