"""Analysis of pairs before training; of answers, by category; and comparisons of matchers."""
