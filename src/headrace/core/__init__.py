"""What every part may use: settings, errors, the clock's protocol. Imports nothing of the other folders."""
