"""What a network learns beside labels: tokens of a text, and a teacher's outputs.

Each is a losses.Objective: a function of features and outputs, not of a model.
"""
