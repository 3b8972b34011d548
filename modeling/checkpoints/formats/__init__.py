"""Files of weights, by format, and the names of variables in each of them.

In: the path of a file. Out: its arrays by the names of the model's variables.
"""
