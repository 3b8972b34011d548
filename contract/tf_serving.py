"""Names and numbers of TensorFlow Serving, which exports, servers and clients share."""

DEFAULT_SIGNATURE = "serving_default"  # the default of requests
REST_PORT = 8501  # its default
EXTRA_DIR = "assets.extra"  # of an export: files that it leaves alone
