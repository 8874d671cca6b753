"""Tables and queries of SQL databases as Arrow batches: PostgreSQL, SQLite, and what an Airflow hook connects to."""
