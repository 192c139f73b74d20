"""A team of AI agents behind one Slack app. Start reading at ``bootstrap.py`` and continue downwards through the
layers.
"""
