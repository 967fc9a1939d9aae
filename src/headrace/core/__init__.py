"""What every part may use: settings, errors, addresses, histograms.

Never: imports of any other folder.
"""
