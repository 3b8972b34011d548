"""The terminal while a program works; imports nothing of ours, and all may.

In: lines of native libraries on standard error, and reports of work that is done.
Out: the lines that are for the reader, and a bar on a terminal or lines in a file.
"""
