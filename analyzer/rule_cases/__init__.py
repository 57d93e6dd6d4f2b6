"""The cases of rules: rows given, rows expected, judged in one database."""
