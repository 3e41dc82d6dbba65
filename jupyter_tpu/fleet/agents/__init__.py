"""What coding agents may do: plans, which are carried out inside a budget, and nothing of others.

A person sets the budget. What an agent asks for outside of it becomes a question to that person.
"""
