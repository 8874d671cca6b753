"""Sources: Arrow record batches out of files and ClickHouse, fitted to the target's types without loss."""
