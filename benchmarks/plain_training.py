"""Training and inference of the plain PyTorch networks, as the recipes train the Keras models."""

from typing import Any

import numpy as np
import torch
from measuring import CHARACTERS, CLASSES, VOCABULARY, training_settings
from plain_drcn import PlainDRCN, count
from plain_hosts import PlainBiMPM, PlainESIM, PlainRE2
from torch.nn.functional import cross_entropy

NETWORKS = {"bimpm": PlainBiMPM, "drcn": PlainDRCN, "esim": PlainESIM, "re2": PlainRE2}
WITH_CHARACTERS = ("bimpm", "drcn")


class PlainTrainer:
    """A plain network with the optimizer of its recipe.

    Args:
        name: Of the model.
        seed: Of its weights and of dropout.
    """

    def __init__(self, name: str, seed: int) -> None:
        torch.manual_seed(seed)
        self.name = name
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        characters = name in WITH_CHARACTERS
        self.inputs = ("word_ids", "char_ids") if characters else ("word_ids",)
        sizes = (VOCABULARY, CHARACTERS) if characters else (VOCABULARY,)
        self.model = NETWORKS[name](*sizes, CLASSES).to(self.device)
        self.learned = [p for p in self.model.parameters() if p.requires_grad]
        settings = training_settings(name)
        self.clipnorm = settings.get("clipnorm")
        make, more = {
            "adam": (torch.optim.Adam, {}),
            "rmsprop": (torch.optim.RMSprop, {"alpha": 0.9}),
        }[settings["optimizer"]]
        self.optimizer = make(self.learned, settings["learning_rate"], eps=1e-7, **more)
        self.parameters, second = count(self.model)
        threads = torch.get_num_threads()
        self.note = f"{second:,} parameters are second LSTM biases; {threads} threads"

    def run(self, inputs: list[np.ndarray]) -> tuple[Any, Any]:
        """The logits and the model's own loss."""
        out = self.model(*(torch.tensor(x, device=self.device) for x in inputs))
        return out if isinstance(out, tuple) else (out, 0.0)

    def step(self, inputs: list[np.ndarray], labels: np.ndarray) -> float:
        """Trains on a batch; returns the loss."""
        self.model.train()
        logits, loss = self.run(inputs)
        if self.name == "drcn":
            loss = loss + 1e-6 * self.model.l2()
        target = torch.tensor(labels, dtype=torch.long, device=self.device)
        loss = loss + cross_entropy(logits, target)
        self.optimizer.zero_grad()
        loss.backward()
        if self.clipnorm:
            torch.nn.utils.clip_grad_norm_(self.learned, self.clipnorm)
        self.optimizer.step()
        return loss.item()

    def predict(self, inputs: list[np.ndarray]) -> np.ndarray:
        """The probabilities."""
        self.model.eval()
        with torch.inference_mode():
            return self.run(inputs)[0].softmax(-1).cpu().numpy()
