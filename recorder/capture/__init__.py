"""What is kept when something breaks, and how it is run again."""
