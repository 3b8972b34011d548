"""A tag for each word: entities, slots, parts of speech."""
