"""Model references and ready models: registry, download, conversion, loading.

Only device, loading and packing import torch: the web process lists and pulls models without it.
"""
