"""TensorFlow Serving's public protocol: to answer it, ask by it, prepare for it.

In: directories of SavedModels, and requests.
Out: answers and errors as TensorFlow Serving gives them.
"""
