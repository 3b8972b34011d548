"""The settings of each command: its flags, arguments of Python, and their checks."""
