"""Pictures: one line figure, one bar figure, one heat map, and what every kind of page draws.

May import claims/, records/ and tables/; matplotlib without pyplot.
"""
