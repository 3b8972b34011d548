"""Names and numbers of TensorFlow Serving, which exports, servers and clients share."""

DEFAULT_SIGNATURE = "serving_default"  # what is asked where none is named
REST_PORT, GRPC_PORT = 8501, 8500  # where it listens unless told otherwise
EXTRA_DIR = "assets.extra"  # of an export: files that it leaves alone
