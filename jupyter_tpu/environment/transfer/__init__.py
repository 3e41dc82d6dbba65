"""The contents of files on their way from one machine to another, for whatever plan: a copy of named
files and folders (`fleet.files`), or a sync of a project (`environment.file_sync`).

Standard library only, Python 3.8: it runs here and on hosts. A plan decides which files are sent,
and where they go; all else is here: the messages, whole files or the changed parts of them,
compression, the file that is written under another name until it is whole.
"""
