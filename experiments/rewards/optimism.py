"""A stand-in for a sentiment score on the embedded task: do the lines of a solution tell of gains or of losses?"""


def optimism(completions, **columns):
    """Return, for each response, the mean over its equations of 1 for a gain (+), 0 for a loss (-), 0.5 for others."""
    worth = {"+": 1.0, "-": 0.0}
    scores = []
    for text in completions:
        signs = [sign for sign in "+-*/" for _ in range(text.count(f" {sign} "))]
        scores.append(sum(worth.get(sign, 0.5) for sign in signs) / len(signs) if signs else 0.0)
    return scores
