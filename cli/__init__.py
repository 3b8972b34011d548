"""Settings from command lines, and from the arguments of Python.

In: command lines, arguments of `fit`. Out: --help, and settings for tasks/. Only
command_line.py reads flags; it needs no TensorFlow.
"""
