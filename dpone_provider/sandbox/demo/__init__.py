"""The demo: a real Airflow, a real ClickHouse, a first try that is killed, and what is true afterwards."""
