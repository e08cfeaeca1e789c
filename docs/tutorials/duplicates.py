"""
# Duplicates in a corpus

A list of questions, some of which ask the same in other words. n questions have n²/2 pairs, too many to score, so
only questions with near word vectors are compared, and a matcher scores only these. No training is needed to begin:
the built-in matcher knows English.

```bash
pip install -e ".[torch]"
```
"""

from keras_sentmatch import Matcher, group, mine

questions = """
How can I learn Python quickly?
What is the fastest way to learn Python?
Which book teaches Python best?
How do I lose weight?
What should I do to lose some weight?
How do I gain weight?
Why is the sky blue?
What makes the sky look blue?
Why is the sea salty?
How do I reset my password?
I forgot my password, how can I change it?
How do I delete my account?
Where can I see my invoices?
Where do I find my old invoices?
Can I pay by bank transfer?
Is it possible to pay by bank transfer?
Do you accept credit cards?
""".strip().splitlines()
matcher = Matcher.similarity()

"""
## Pairs

Scores of the built-in matcher say how similar two sentences are, so the threshold is yours: a higher one finds fewer
pairs, and more of them are right.
"""

for pair in mine(matcher, questions, threshold=0.93):
    print(f"{pair.score:.2f}  {pair.sentence1}  |  {pair.sentence2}")

"""
## Groups

`group` joins sentences as long as their mean score is above the threshold, so a single wrong pair does not join two
groups. Its representative is the sentence that matches the others best.
"""

for found in group(matcher, questions, threshold=0.93):
    print(found.group, found.size, found.representative)

"""
## Choosing the threshold

Label the pairs around the threshold yourself, best with both labels, and let them choose. The picture shows how many
pairs each threshold keeps.
"""

from matplotlib.figure import Figure

scores = sorted((pair.score for pair in mine(matcher, questions, threshold=0.5)), reverse=True)
figure = Figure(figsize=(6, 2.8), layout="constrained")
axis = figure.subplots()
axis.plot(scores, range(1, len(scores) + 1), drawstyle="steps-post")
axis.set(xlabel="threshold", ylabel="pairs found")
figure.savefig("threshold.png", dpi=110)

"""
## Better

A matcher trained on labeled duplicates of your own kind is better than similarity: it learns that "gain" and "lose"
weight are different questions. `keras-sentmatch mine runs/mine questions.txt --groups --out groups.html` writes a
page of groups, and continues after an interruption.
[How many duplicates it finds](../results/how-good.md#mining-duplicates).
"""
