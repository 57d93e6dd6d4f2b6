"""Reading the user's program: frames, source text, arguments of calls, handlers of signals."""
