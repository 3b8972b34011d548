"""TensorFlow Serving's public protocol: servers, clients and warm-up requests.

In: directories of SavedModels, and requests.
Out: answers and errors as TensorFlow Serving gives them.
"""
