"""The networks, each in one file or folder, and the list of them.

A network's file has its config, what its layers do otherwise, the names of its
variables, and a record of all that other packages want to know of it.
"""
