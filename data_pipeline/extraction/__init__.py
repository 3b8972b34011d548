"""Lines of text to files of vectors, for extract_features.py."""
