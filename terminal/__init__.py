"""What a person sees while a program works; imports nothing of ours, and all may.

In: what native libraries write to standard error, and reports of work that is done.
Out: the lines that are for the reader, and a bar on a terminal or lines in a file.
"""
