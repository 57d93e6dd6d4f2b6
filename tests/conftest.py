"""What all tests share."""

import os

# Two test workers share two cores: the threads of one training would wait at every barrier for those of the other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A row that does not fit its table fails the test that wrote it, in recorded scripts too.
os.environ.setdefault("FIRSTFAULT_STRICT", "1")
