"""A large raw text, read by many processes.

In: files of text, plain or gzip. Out: ranges of bytes that any process reads by itself,
how often each word occurs, and a vocabulary learned from that.
"""
