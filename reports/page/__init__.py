"""One run in full: the page and the terminal."""
