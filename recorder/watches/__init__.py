"""Independent listeners, one file each."""
