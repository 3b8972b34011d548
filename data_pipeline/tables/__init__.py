"""Rows and lines of files, numbered, whichever the format or the file system."""
