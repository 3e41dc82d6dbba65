"""Files on a host, and on their way between machines: copies (`copy`), syncs (`project`), single
files for REST (`requests`), folders that hosts share. Both ends of a transfer run this.
"""
