"""Many runs: found, judged in processes or on a cluster, and listed in one index."""
