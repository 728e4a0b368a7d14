"""Advice about a project: tasks of its code, a study of some models over them, and the sentence that follows."""
