"""Command lines: each flag is defined once; these modules and scripts read FLAGS.

In: command lines. Out: --help, and typed settings for the other packages. The *_flags
modules need no TensorFlow, so that a wrong flag ends a program at once.
"""
