"""TensorFlow Serving's public protocol over loaded models, without its binary.

In: directories of SavedModels, and requests.
Out: answers and errors as TensorFlow Serving gives them.
"""
