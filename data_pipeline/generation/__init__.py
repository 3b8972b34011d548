"""Prompts and the texts that a network writes after them; texts that it scores."""
