"""The library of ``jupyter tpu`` and ``%tpu``: grammar, tables, questions, progress, times."""
