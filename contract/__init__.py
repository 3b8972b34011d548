"""What the packages agree on; it imports none of them, and all may import it.

Names and types of features, names of files that one package writes and another reads,
and files that are whole under their names or absent. Nothing else belongs here.
"""
