"""The models and plain PyTorch networks that `speed.py` and `gpu.py` measure, batch by batch."""

import inspect
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from measuring import CHARACTERS, CLASSES, VOCABULARY, training_settings

# Most important first: a run out of time measures these.
WORD_MODELS = ("esim", "drcn", "re2", "diin", "drr_net", "cafe", "bimpm")
WORD_MODELS += ("hybrid", "hyper_lstm", "rlstm", "din")
ENCODER_MODELS = ("cross_encoder", "dabert", "ladra_net")
MODELS = (*WORD_MODELS, *ENCODER_MODELS)
PLAIN = ("esim", "re2")
Arrays = Mapping[str, np.ndarray]
WARM_UP = 4  # steps and answers of a shape


def build(name: str, length: int, seed: int, toy: bool = False, **changes: Any) -> Any:
    """Build a model in its paper's size with all inputs that need no lexicon, or on a small BERT."""
    from keras_sentmatch.applications import build_model, get_model_class

    random.seed(seed)  # of Keras's seeds; its set_random_seed imports TensorFlow where it can
    if name in ENCODER_MODELS:
        return build_model(name, backbone=encoder(toy), num_classes=CLASSES, **changes)
    cls = get_model_class(name)
    known = inspect.signature(cls.__init__).parameters
    config: dict[str, Any] = {"preset": "snli"} if "snli" in cls.presets else {}
    config |= {"max_length": length} if "max_length" in known else {}
    config |= {"batch_normalization": True} if name == "drcn" else {}
    config |= {"vocabulary_size": VOCABULARY, "num_classes": CLASSES}
    config |= {"char_vocabulary_size": CHARACTERS} if "char_vocabulary_size" in known else {}
    return build_model(name, **config | changes)


def encoder(toy: bool) -> Any:
    """Return a BERT of MiniLM-L6's size with random weights."""
    import keras_hub

    layers, heads, width = (2, 2, 16) if toy else (6, 12, 384)
    return keras_hub.models.BertBackbone(
        VOCABULARY, layers, heads, width, 4 * width, max_sequence_length=512
    )


def packed(arrays: Arrays) -> dict[str, np.ndarray]:
    """Join both sentences for a backbone: [CLS] 1 [SEP] 2 [SEP], where [CLS] is 3 and [SEP] is 4."""
    sides = [arrays[f"word_ids_{side}"] for side in "12"]
    one, two = ((ids != 0).sum(1)[:, None] for ids in sides)
    width = sides[0].shape[1] + sides[1].shape[1] + 3
    at = np.arange(width) * np.ones_like(one)
    ids = np.zeros(at.shape, "int32")
    for side, start, count in ((0, 1, one), (1, one + 2, two)):
        from_side = np.clip(at - start, 0, sides[side].shape[1] - 1)
        inside = (at >= start) & (at < start + count)
        ids = np.where(inside, np.take_along_axis(sides[side], from_side, 1), ids)
    ends = one + two + 2
    ids = np.where((at == one + 1) | (at == ends), 4, np.where(at == 0, 3, ids))
    segments = (at > one + 1) & (at <= ends)
    found = {"token_ids": ids, "segment_ids": segments, "padding_mask": at <= ends}
    return {name: array.astype("int32") for name, array in found.items()}


class KerasSubject:
    """A model of the library, compiled as its recipe and the commands do."""

    def __init__(self, name: str, length: int, seed: int, toy: bool = False, **changes: Any):
        import keras

        from keras_sentmatch.training.config import TrainingConfig
        from keras_sentmatch.training.optimizers import make_optimizer

        self.name = name
        self.model = build(name, length, seed, toy, **changes)
        known = training_settings(name)
        names = ("optimizer", "learning_rate", "clipnorm", "global_clipnorm")
        settings = TrainingConfig(**{n: known[n] for n in names if n in known})
        self.model.compile(
            make_optimizer(self.model, settings, 1),
            "sparse_categorical_crossentropy",
            jit_compile=False if keras.backend.backend() == "tensorflow" else "auto",
        )
        self.parameters = self.model.count_params()
        self.predict = probabilities_of(self.model)
        compiles_late = keras.backend.backend() == "torch" and hasattr(self.predict, "traces")
        self.answers_to_compile = 100 if compiles_late else 0  # at most

    def inputs(self, arrays: Arrays) -> Any:
        arrays = packed(arrays) if self.name in ENCODER_MODELS else arrays
        return {name: arrays[name] for name in self.model.input_names}

    def step(self, inputs: Any, labels: np.ndarray) -> Any:
        """Train on a batch."""
        return self.model.train_on_batch(inputs, labels)


def probabilities_of(model: Any) -> Callable[[Any], np.ndarray]:
    """Return a function to probabilities, as the checkout's `Matcher` computes them."""
    try:
        from keras_sentmatch.inference.compiled import CompiledModel
    except ImportError:  # `speed.py --before` may name a checkout from before it
        return model.predict_on_batch
    return CompiledModel(model)


def warm_up(subject: Any, inputs: Any, labels: np.ndarray) -> None:
    """Train on a batch, and predict it until its shape is compiled."""
    traces = getattr(subject.predict, "traces", 0)
    for _ in range(WARM_UP):
        subject.step(inputs, labels)
        subject.predict(inputs)
    for _ in range(subject.answers_to_compile):
        if subject.predict.traces > traces:
            break
        subject.predict(inputs)


class PlainSubject:
    """A plain PyTorch network with the optimizer of its recipe. Clips all gradients together."""

    answers_to_compile = 0

    def __init__(self, name: str, seed: int, autocast: bool = False):
        import torch
        from plain import PlainESIM, PlainRE2, count

        torch.manual_seed(seed)
        self.torch, self.autocast = torch, autocast
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = {"esim": PlainESIM, "re2": PlainRE2}[name](VOCABULARY, CLASSES).to(self.device)
        self.learned = [p for p in self.model.parameters() if p.requires_grad]
        settings = training_settings(name)
        self.clipnorm = settings.get("clipnorm")
        optimizer, more = {
            "adam": (torch.optim.Adam, {}),
            "rmsprop": (torch.optim.RMSprop, {"alpha": 0.9}),
        }[settings["optimizer"]]
        self.optimizer = optimizer(self.learned, settings["learning_rate"], eps=1e-7, **more)
        self.parameters, _ = count(self.model)

    def inputs(self, arrays: Arrays) -> list[np.ndarray]:
        return [arrays[f"word_ids_{side}"] for side in "12"]

    def logits(self, inputs: list[np.ndarray]) -> Any:
        given = [self.torch.tensor(x, device=self.device) for x in inputs]
        with self.torch.autocast(self.device, self.torch.bfloat16, enabled=self.autocast):
            return self.model(*given).float()

    def step(self, inputs: list[np.ndarray], labels: np.ndarray) -> float:
        """Train on a batch. Returns the loss."""
        self.model.train()
        target = self.torch.tensor(labels, dtype=self.torch.long, device=self.device)
        loss = self.torch.nn.functional.cross_entropy(self.logits(inputs), target)
        self.optimizer.zero_grad()
        loss.backward()
        if self.clipnorm:
            self.torch.nn.utils.clip_grad_norm_(self.learned, self.clipnorm)
        self.optimizer.step()
        return loss.item()

    def predict(self, inputs: list[np.ndarray]) -> np.ndarray:
        """Return the probabilities."""
        self.model.eval()
        with self.torch.inference_mode():
            return self.logits(inputs).softmax(-1).cpu().numpy()
