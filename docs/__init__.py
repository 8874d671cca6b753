"""The documents, and the generator of the two that are written by the code (``python -m docs.generate``)."""
