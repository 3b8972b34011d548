"""Names and files that the packages share; it imports none of them.

Names and types of features, names of files that one package writes and another reads,
files that are whole under their names or absent, and what messages and readers of other
programs' JSON have in common. Nothing else belongs here.
"""
