"""SavedModel signatures and a resident predictor."""
