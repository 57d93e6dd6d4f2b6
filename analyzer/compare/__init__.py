"""Where two runs part, and what else differs between them."""
