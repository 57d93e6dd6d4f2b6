"""The commands of the analyzer and the reports: all that prints and picks exit codes."""
