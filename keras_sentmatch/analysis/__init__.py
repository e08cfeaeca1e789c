"""Reports: errors in labeled pairs before training, a matcher's predictions, and runs compared.

Names are loaded on first use, so importing this package chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.analysis._categories import read_annotations as read_annotations
    from keras_sentmatch.analysis._report import report as report
    from keras_sentmatch.analysis._report import report_sections as report_sections
    from keras_sentmatch.analysis._report import save_report as save_report

_modules = {
    "read_annotations": "analysis._categories",
    "report": "analysis._report",
    "report_sections": "analysis._report",
    "save_report": "analysis._report",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
