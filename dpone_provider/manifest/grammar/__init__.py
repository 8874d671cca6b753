"""Every key that an author may write, declared once: what it means, an example, its default, what it may hold.

The readers take their known keys, words and patterns from here; ``schemas/*.schema.json`` are generated from here (M4).
"""
