"""Tools for coding agents, by the Model Context Protocol (MCP).

`jupyter tpu mcp` offers them on standard input and output. jupyter-server-mcp finds them by the
entry point `jupyter_server_mcp.tools`. All of them use a running Jupyter server by the agents'
token, so that what they may do and spend is decided there.
"""
