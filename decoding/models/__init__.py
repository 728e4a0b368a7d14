"""Model references and ready models: registry, download, conversion, loading.

`registry`, `fetch` and their imports need no torch: the web process lists and pulls models without it.
"""
