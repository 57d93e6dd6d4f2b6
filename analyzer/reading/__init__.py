"""From the files of a run to tables and shared views in DuckDB."""
