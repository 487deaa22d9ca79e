"""Values that everything else is built from: quantities, selectors, names, regular expressions.

Pure: nothing here reads a clock, a file or a socket.
"""
