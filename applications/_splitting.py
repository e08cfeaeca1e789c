"""A pair model in three parts."""

from typing import TYPE_CHECKING

import keras

from keras_sentmatch.applications._sentences import Sentence

if TYPE_CHECKING:
    from keras_sentmatch.applications.pair_model import PairModel


def split_model(model: "PairModel") -> tuple[keras.Model, keras.Model, keras.Model]:
    """Return both encoders and the interaction; see `PairModel.split`."""
    encoders, sides = [], []
    inputs: dict[str, keras.KerasTensor] = {}
    for side in "12":
        of_side = {
            name.removesuffix(f"_{side}"): keras.Input(
                x.shape[1:], dtype=x.dtype, name=name.removesuffix(f"_{side}")
            )
            for name, x in model._inputs_struct.items()
            if name.endswith(f"_{side}")
        }
        sentence = model.make_sentence(side, {f"{n}_{side}": x for n, x in of_side.items()}, None)
        tensors = vars(model.encode(sentence))
        encoders.append(keras.Model(of_side, tensors, name=f"{model.name}_encoder_{side}"))
        cached = {
            name: keras.Input(x.shape[1:], dtype=x.dtype, name=f"{name}_{side}")
            for name, x in tensors.items()
        }
        inputs |= {f"{name}_{side}": x for name, x in cached.items()}
        sides.append(Sentence(**cached))
    interaction = keras.Model(inputs, model.interact(*sides), name=f"{model.name}_interaction")
    return encoders[0], encoders[1], interaction
