"""Operations that layers are made of, and ways to run them faster.

In: tensors, or a built model. Out: the same numbers in less time. These import nothing
else of ours.
"""
