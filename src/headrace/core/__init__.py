"""What every part may use: settings, errors, the clock's protocol. Imports nothing of the folders above it."""
