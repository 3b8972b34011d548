"""A large raw text, read in ranges by many processes; vocabularies learned from it."""
