"""Reports: errors in labeled pairs before training, a matcher's predictions, runs and recipes compared.

Names are loaded on first use, so importing this package chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.analysis.ablation import ablate as ablate
    from keras_sentmatch.analysis.auditing import audit as audit
    from keras_sentmatch.analysis.reporting import report as report

_modules = {
    "ablate": "analysis.ablation",
    "audit": "analysis.auditing",
    "report": "analysis.reporting",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
