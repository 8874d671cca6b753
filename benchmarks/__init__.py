"""Benchmarks: what a load and a start cost. Each module ends with one line of JSON with its figures."""
