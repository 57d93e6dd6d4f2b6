"""What all tests share."""

import os

# Two test workers share two cores: the threads of one training would wait at every barrier for those of the other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
