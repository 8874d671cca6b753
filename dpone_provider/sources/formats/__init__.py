"""One module a file format: a reader of record batches over one file, with errors that never hold a value."""
