"""Prompts, and the texts that a network writes after them.

In: arguments, a file or standard input. Out: ids to continue, and what has been written
as text, on the screen and in files.
"""
