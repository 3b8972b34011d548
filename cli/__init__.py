"""What command lines may say, each flag defined once. These and scripts read FLAGS.

In: command lines. Out: --help, and typed settings for the rest of the package. What
defines flags needs absl alone; run_flags.py and device_setup.py need TensorFlow.
"""
