"""The files of a trained head's folder."""

RECORD, CONFIG, WEIGHTS = "bassline.json", "config.json", "model.safetensors"
