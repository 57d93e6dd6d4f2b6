"""Words by which a script says what a number is."""

import re

A_LOSS = re.compile(
    r"loss|nll|criterion|crit\b|cross_entropy|(^|_|\b)(ce|mse|bce|ctc)(_|\b)|perplexity|elbo", re.IGNORECASE
)
"""Of a loss."""

A_SCORE = re.compile(r"acc|correct|score|argmax|==", re.IGNORECASE)
"""Of a number that is to grow."""
