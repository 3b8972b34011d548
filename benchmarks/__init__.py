"""Programs that time the project, and print tables."""
