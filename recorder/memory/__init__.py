"""Who holds memory that grows."""
