"""What every model shares: its arguments, its inputs and its graph."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_sentmatch.applications import _views
from keras_sentmatch.applications._sentences import Sentence as Sentence
from keras_sentmatch.applications._sentences import both as both
from keras_sentmatch.applications._training import TrainingHooks
from keras_sentmatch.applications.hyperparameters import Parameter
from keras_sentmatch.applications.picture_specs import PictureSpec
from keras_sentmatch.layers import WordRepresentation
from keras_sentmatch.layers.base import refuse_unknown
from keras_sentmatch.layers.dropout import Dropout

FEATURES = ("word_ids", "char_ids", "pos", "antonym")  # the encoder's arrays of a sentence


class PairModel(TrainingHooks, keras.Model):
    """A functional Keras model of sentence pairs.

    The file of a model reads from the mathematics down. `encode` and `interact` come first, then
    the methods that they call, in the paper's order. `__init__` sets the model's own arguments as
    attributes (`super().__init__` sets those below), makes the layers, and ends with
    `self.make_graph()`. At the end stand `presets`, `search_space`, `pictures` and hooks.

    Args:
        vocabulary_size: Number of word ids; 0 is padding, 1 the unknown word.
        num_classes: Width of the output; 1 gives a score instead of probabilities.
        embedding_dim: Width of a word vector.
        trainable_embedding: Whether the word vectors are trained.
        dropout: Rate of every dropout that has no argument of its own.
        char_vocabulary_size: Number of character ids; 0 leaves the characters out.
        char_dim: Width of a character embedding.
        char_filters: Width of the character feature of a word.
        char_kernel_size: Characters in a window of the character CNN.
        max_word_length: Characters a word is padded to.
        exact_match: Whether to flag words that occur in the other sentence.
        pos_tags: Number of part-of-speech ids (`pos_1`, `pos_2`); 0 leaves them out.
        antonym: Whether there is an antonym flag (`antonym_1`, `antonym_2`).
        **kwargs: `name`, `dtype` and `trainable`.

    Inputs:
        A dict of int32, right-padded with 0: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`; with
        these features also `char_ids_1` `[B, L1, max_word_length]`, `pos_1`, `antonym_1`, ….

    Output:
        `[B, num_classes]` probabilities, or `[B, 1]` scores if `num_classes=1`, in float32 under
        every dtype policy. Padding changes nothing; an empty sentence gives a finite output.
    """

    paper: ClassVar[str] = ""
    summary_line: ClassVar[str] = ""
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    reasons: ClassVar[dict[str, str]] = {}  # why an argument is not as in the preset `as_printed`
    search_space: ClassVar[list[Parameter]] = []
    pictures: ClassVar[tuple[PictureSpec, ...]] = ()
    unused: ClassVar[Collection[str]] = ()  # arguments above that would change nothing
    shares_encoder: bool = True  # whether `encode` runs once, on both sentences stacked
    _made = False

    def encode(self, sentence: Sentence) -> Sentence:
        """Encode a sentence without the other one.

        `sentence` has `side` (`"1"` or `"2"`; `None` if both are encoded at once), `mask` (boolean
        `[B, L]`), `other_word_ids`, `word_ids`, `char_ids`, `pos` and `antonym`; those that the
        model has no input for are `None`.
        """
        raise NotImplementedError

    def interact(self, one: Sentence, two: Sentence):
        """Return the output, from what `encode` returned for both sentences."""
        raise NotImplementedError

    # === Arguments ===

    def __init__(
        self,
        vocabulary_size: int = 0,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = False,
        dropout: float = 0.2,
        char_vocabulary_size: int = 0,
        char_dim: int = 16,
        char_filters: int = 32,
        char_kernel_size: int = 5,
        max_word_length: int = 16,
        exact_match: bool = False,
        pos_tags: int = 0,
        antonym: bool = False,
        **kwargs,
    ):
        self.check_arguments(kwargs)
        self.vocabulary_size = vocabulary_size
        self.num_classes = num_classes
        self.embedding_dim = embedding_dim
        self.trainable_embedding = trainable_embedding
        self.dropout = dropout
        self.char_vocabulary_size = char_vocabulary_size
        self.char_dim = char_dim
        self.char_filters = char_filters
        self.char_kernel_size = char_kernel_size
        self.max_word_length = max_word_length
        self.exact_match = exact_match
        self.pos_tags = pos_tags
        self.antonym = antonym
        self.policy = keras.dtype_policies.get(kwargs.get("dtype"))
        self._keras_arguments = kwargs
        self._shown: list[tuple[Callable[[], Mapping[str, Any]], bool]] = []

    def __setattr__(self, name: str, value) -> None:
        # As in KerasHub: before `keras.Model.__init__`, which `make_graph` calls, a PyTorch module
        # refuses layers. All of them are in the functional graph anyway.
        if self._made:
            super().__setattr__(name, value)
        else:
            object.__setattr__(self, name, value)

    @classmethod
    def arguments(cls) -> dict[str, inspect.Parameter]:
        """The model's arguments by name: its own, then those of the classes that it extends."""
        found: dict[str, inspect.Parameter] = {}
        for base in cls.__mro__[: cls.__mro__.index(PairModel) + 1]:
            if "__init__" in vars(base):
                parameters = inspect.signature(vars(base)["__init__"]).parameters
                found |= {name: p for name, p in parameters.items() if name not in found}
        hidden = {"self", "args", "kwargs", *cls.unused}
        return {name: p for name, p in found.items() if name not in hidden}

    @classmethod
    def check_arguments(cls, names: Collection[str]) -> None:
        """Raise an `InputError` for names that are arguments neither of the model nor of Keras."""
        refuse_unknown(cls.__name__, names, list(cls.arguments()))

    def get_config(self) -> dict[str, Any]:
        config = {name: getattr(self, name) for name in self.arguments()}
        keras_own = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype_policy}
        return config | keras_own

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> "PairModel":
        return cls(**config)

    @classmethod
    def conflict(cls, arguments: Mapping[str, Any]) -> str | None:
        """Why these arguments can't go together, if they can't; a search passes over them."""
        return None

    def departures(self) -> list[str]:
        """Return each argument that departs from the paper's text, with the place and the reason."""
        printed = self.presets.get("as_printed", {})
        values = {name: (getattr(self, name), value) for name, value in printed.items()}
        return [
            f"{name} is {here!r}, not {there!r}: {self.reasons[name]}"
            for name, (here, there) in values.items()
            if here != there
        ]

    # === Graph ===

    def make_graph(self) -> None:
        """Make the functional model from `encode` and `interact`: the last line of `__init__`."""
        inputs = self.make_inputs()
        output = self.connect(inputs)
        self._made = True  # from here on `show` does nothing
        super().__init__(inputs=inputs, outputs=output, **self._keras_arguments)
        self.dtype_policy = self.policy  # a functional model does not keep it

    def make_inputs(self) -> dict[str, Any]:
        """The symbolic int32 inputs by name."""
        shapes: dict[str, tuple[int | None, ...]] = {"word_ids": (None,)}
        if self.char_vocabulary_size:
            shapes["char_ids"] = (None, self.max_word_length)
        if self.pos_tags:
            shapes["pos"] = (None,)
        if self.antonym:
            shapes["antonym"] = (None,)
        return {
            f"{name}_{side}": keras.Input(shape, dtype="int32", name=f"{name}_{side}")
            for side in "12"
            for name, shape in shapes.items()
        }

    def connect(self, inputs: Mapping[str, Any]):
        """The output from the symbolic inputs."""
        one = self.make_sentence("1", inputs, inputs["word_ids_2"])
        two = self.make_sentence("2", inputs, inputs["word_ids_1"])
        if self.shares_encoder:
            return self.interact(*both(self.encode, one, two))
        return self.interact(self.encode(one), self.encode(two))

    def make_sentence(self, side: str, inputs: Mapping[str, Any], other_word_ids) -> Sentence:
        """Make the argument of `encode` for one sentence."""
        features = {name: inputs.get(f"{name}_{side}") for name in FEATURES}
        mask = ops.not_equal(features["word_ids"], 0)
        return Sentence(**features, other_word_ids=other_word_ids, mask=mask, side=side)

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order: the arrays that the encoder must make."""
        return list(self._inputs_struct)

    # === Views ===

    def show(
        self, later: Callable[[], Mapping[str, Any]] | None = None, *, each: bool = False, **tensors
    ) -> None:
        """Name tensors for `explainer`, while the graph is made.

        Args:
            later: A function that returns tensors by name, called only for an explainer.
            each: Whether layers show theirs under one name, stacked along an axis after the batch.
            **tensors: Tensors by name.
        """
        if not self._made:
            self._shown.append((later or (lambda: tensors), each))

    def explainer(self) -> keras.Model:
        """Return a model with the same weights that outputs all tensors named with `show`."""
        return _views.explainer(self)

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

        They share this model's weights. The first two accept the inputs of one sentence, by name
        without a number, and return a dict of tensors, which can be kept. The third accepts both
        dicts in one, with `_1` and `_2` added to each name.

        Raises:
            InputError: The model looks at both sentences from the start.
        """
        return _views.split(self)

    # === Layers that most models have ===

    def make(self, cls: Any, name: str, *args, **options):
        """Make a layer: `cls(*args, **options)` with this name and the model's dtype policy."""
        return cls(*args, **options, dtype=self.policy, name=name)

    def make_dropout(self, name: str) -> keras.layers.Layer:
        """Make a dropout at the model's rate."""
        return self.make(Dropout, name, self.dropout)

    def make_word_representation(self, **options) -> WordRepresentation:
        """Make `WordRepresentation` from the arguments that models share and from `options`."""
        shared = {
            "trainable_embedding": self.trainable_embedding,
            "fixed_embedding": not self.trainable_embedding,
            "char_vocabulary_size": self.char_vocabulary_size,
            "char_dim": self.char_dim,
            "char_filters": self.char_filters,
            "char_kernel_size": self.char_kernel_size,
            "exact_match": self.exact_match,
            "pos_tags": self.pos_tags,
            "antonym": self.antonym,
            "dropout": self.dropout,
        }
        sizes = self.vocabulary_size, self.embedding_dim
        return self.make(WordRepresentation, "word_representation", *sizes, **shared | options)

    def represent_words(self, sentence: Sentence):
        """`[B, L, D]`: what `self.word_representation` makes of a sentence's words."""
        ids, other = sentence.word_ids, sentence.other_word_ids
        features = sentence.char_ids, sentence.pos, sentence.antonym
        return self.word_representation(ids, other, *features)

    def make_classifier(
        self, dense: Callable[..., Any] = keras.layers.Dense, **options
    ) -> Callable[[Any], Any]:
        """Make the last layers, `[B, D]` to probabilities or a score; `dense` makes the logits'."""
        self.logits = dense(self.num_classes, dtype="float32", name="logits", **options)
        self.probabilities = self.make_probabilities()
        return lambda v: self.probabilities(self.logits(v))

    def make_probabilities(self) -> keras.layers.Layer:
        """Make the softmax of logits; scores stay as they are."""
        kind = "softmax" if self.num_classes > 1 else "linear"
        return keras.layers.Activation(kind, dtype="float32", name="probabilities")

    # === Word vectors ===

    def set_word_vectors(
        self, matrix: np.ndarray, similarity: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Put `matrix`, `[vocabulary_size, embedding_dim]`, into every word embedding.

        `similarity`: What `vectors.load_similarity()` returns, for vectors of the built-in table.
        """
        for layer in self.layers:
            if isinstance(layer, WordRepresentation):
                layer.set_word_vectors(matrix)

    def row_tables(self) -> list[tuple[str, Any]]:
        """Return the variables with one row per word, each after its kind (`"vectors"`)."""
        layers = [layer for layer in self.layers if isinstance(layer, WordRepresentation)]
        return [("vectors", table.embeddings) for r in layers for table in r.word_embeddings]

    def count_params_without_word_embeddings(self) -> int:
        """The papers' count: all parameters but the word embeddings."""
        tables = [table for role, table in self.row_tables() if role == "vectors"]
        return self.count_params() - sum(int(np.prod(table.shape)) for table in tables)
