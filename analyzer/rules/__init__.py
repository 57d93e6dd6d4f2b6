"""The rules: one SELECT each in the folders of the layers, and what loads, words and changes them."""
