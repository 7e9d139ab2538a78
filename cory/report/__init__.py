"""From run directories to committed pages: gather runs into an archive, then write pages from it.

Rooms: claims/ records/ tables/ figures/ pages/, each importing only rooms that stand before it.
May import config, functional, memory and what a run leaves (runs); nothing that trains.
"""
