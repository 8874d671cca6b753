"""Partition transfer: what is planned, what is kept of it, and what may be said about it."""
