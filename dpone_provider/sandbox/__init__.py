"""A real ClickHouse server out of the wheel ``chdb-core``, for trying, teaching and testing. Not for production."""
