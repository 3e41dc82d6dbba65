"""Files on their way from one machine to another. Whoever plans a copy (`fleet.files`) or a sync
(`environment.file_sync`) decides which files, and where they go.

Standard library only, Python 3.8: it runs here and on hosts.
"""
