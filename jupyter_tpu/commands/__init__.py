"""A file for each command of ``jupyter tpu``, named as it is typed; ``%tpu`` shares some."""
