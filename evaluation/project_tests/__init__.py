"""Judges an answer by the tests of its project: the files, the spliced module, and the run in the sandbox."""
