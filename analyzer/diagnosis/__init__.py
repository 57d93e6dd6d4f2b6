"""From the rules that fired to causes, symptoms and the verdict."""
