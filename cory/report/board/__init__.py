"""The interactive page of `cory-board`: any runs in one HTML file that needs no server.

Python reads the run directories and packs what the page shows (`data`, `lines`, `texts`); `page`
puts it into a file with plotly.js and the scripts of page/, which draw it in the browser.
"""
