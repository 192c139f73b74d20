"""How well a model routes: labelled sentences, and a table of what it made of them."""
