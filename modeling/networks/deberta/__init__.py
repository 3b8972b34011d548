"""DeBERTa-v2 and v3, and mDeBERTa: their config, layers and names."""
