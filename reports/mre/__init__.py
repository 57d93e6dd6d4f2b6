"""A script that makes one captured call again."""
