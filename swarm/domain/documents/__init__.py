"""Documents that agents search: pieces, excerpts, words."""
