"""The numbers of a page as Markdown tables: columns are data, one renderer writes all tables.

May import claims/ and records/.
"""
