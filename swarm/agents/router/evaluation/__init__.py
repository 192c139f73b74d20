"""Evaluation of a model's routing: labelled sentences, and a table of the results."""
