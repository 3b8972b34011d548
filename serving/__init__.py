"""SavedModel signatures, and a predictor that holds one.

In: a trained model with functions from text to features and from outputs to answers.
Out: a SavedModel that takes raw text, or an export for LiteRT or ONNX Runtime, and its
answers.
"""
