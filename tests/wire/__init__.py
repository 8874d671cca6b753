"""Every fault of the wire at every kind of statement of a real load."""
