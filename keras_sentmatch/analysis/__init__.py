"""Analysis of answers: by linguistic category, and compared with baselines and other matchers."""
