"""How values of one Arrow type become values of one ClickHouse type, exactly or not at all."""
