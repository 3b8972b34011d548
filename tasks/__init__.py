"""What each command does, as a function of its settings.

In: settings, which are frozen dataclasses. Out: what the packages below compute, in the
files that the commands write. No flags are read here; tasks/settings/ needs no
TensorFlow, so that a wrong flag ends a program at once.
"""
