"""What the packages agree on; it imports none of them, and all may import it.

Names and types of features, names of files that one package writes and another reads,
files that are whole under their names or absent, and what messages and readers of other
programs' JSON have in common. Nothing else belongs here.
"""
