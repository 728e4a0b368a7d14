"""Model references and ready models: registry, download, conversion, loading. Only loading and packing import torch."""
