"""What is asked of Google: its TPUs and what can be created; and what is set up there in a project:
networks, SSH keys and log exclusions. A call serves all clients.
"""
