"""From run directories to pages: gather runs into an archive, then write pages from it alone."""
