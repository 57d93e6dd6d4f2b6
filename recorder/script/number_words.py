"""Words by which a script says what a number is."""

import re

A_LOSS = re.compile(
    r"loss|nll|criterion|crit\b|cross_entropy|(^|_|\b)(ce|mse|bce|ctc)(_|\b)|perplexity|elbo", re.IGNORECASE
)
"""Of a loss."""

A_SCORE = re.compile(r"acc|correct|score|argmax|==", re.IGNORECASE)
"""Of a number that is to grow."""

A_MEASURE = re.compile(
    r"(?:^|[\W_\d])(?:acc|accs|accuracy|f1|auc|auroc|iou|miou|dice|psnr|ssim|bleu|rouge|recall|precision|ndcg|mrr|reward|return)"
    r"(?:$|[\W_\d])",
    re.IGNORECASE,
)
"""Of a measure that is better the greater it is, whatever stands beside it."""

AN_ERROR = re.compile(
    r"(?:^|[\W_\d])(?:loss|losses|nll|mse|mae|rmse|mape|wer|cer|ppl|perplexity|err|error|errors)(?:$|[\W_\d])",
    re.IGNORECASE,
)
"""Of one that is better the smaller it is."""
