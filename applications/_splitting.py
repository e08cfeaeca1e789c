"""A pair model in three parts."""

from collections.abc import Callable
from typing import Any

import keras

from keras_sentmatch.applications._sentences import Sentence
from keras_sentmatch.errors import InputError


class Splittable:
    """The part of `PairModel` that encodes a sentence without the other one."""

    name: str
    exact_match: bool
    antonym: bool
    _inputs_struct: dict[str, Any]
    make_sentence: Callable[..., Sentence]
    encode: Callable[[Sentence], Sentence]
    interact: Callable[[Sentence, Sentence], Any]

    @property
    def why_not_splittable(self) -> str:
        """Why a sentence can't be encoded without the other; empty if it can."""
        switches = [name for name in ("exact_match", "antonym") if getattr(self, name)]
        off = ", ".join(f"{name}=False" for name in switches)
        return f"it flags words by the other sentence; make it with {off}" if off else ""

    @property
    def can_split(self) -> bool:
        """Whether one sentence can be encoded without the other."""
        return not self.why_not_splittable

    def split(self) -> tuple[keras.Model, keras.Model, keras.Model]:
        """Return `encode` of sentence 1, `encode` of sentence 2, and `interact` as models.

        They share the weights of this one. The first two take the inputs of one sentence, by name
        without a number, and return a dict of tensors. `interact` takes both dicts in one, with `_1`
        and `_2` added to each name, and returns the model's output. So the encodings of a corpus can
        be cached.

        Raises:
            InputError: The model looks at both sentences from the start.
        """
        if self.why_not_splittable:
            raise InputError(
                f"This {type(self).__name__} can't encode a sentence alone: "
                f"{self.why_not_splittable}."
            )
        halves, sides = [], []
        inputs: dict[str, keras.KerasTensor] = {}
        for side in "12":
            of_side = {
                name.removesuffix(f"_{side}"): keras.Input(
                    x.shape[1:], dtype=x.dtype, name=name.removesuffix(f"_{side}")
                )
                for name, x in self._inputs_struct.items()
                if name.endswith(f"_{side}")
            }
            sentence = self.make_sentence(
                side, {f"{n}_{side}": x for n, x in of_side.items()}, None
            )
            tensors = vars(self.encode(sentence))
            halves.append(keras.Model(of_side, tensors, name=f"{self.name}_encoder_{side}"))
            cached = {
                name: keras.Input(x.shape[1:], dtype=x.dtype, name=f"{name}_{side}")
                for name, x in tensors.items()
            }
            inputs |= {f"{name}_{side}": x for name, x in cached.items()}
            sides.append(Sentence(**cached))
        interaction = keras.Model(inputs, self.interact(*sides), name=f"{self.name}_interaction")
        return halves[0], halves[1], interaction
