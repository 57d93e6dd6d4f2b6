"""Words for people: sentences, numbers, names, small tables of ready words."""
