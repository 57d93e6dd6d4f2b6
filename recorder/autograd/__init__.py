"""Reading the autograd graph."""
