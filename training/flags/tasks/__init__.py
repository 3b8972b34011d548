"""Flags of one script each: its rows, its objective, what it writes.

In: the command line. Out: values, by the names of what takes them.
"""
