"""The loops that compare desired with observed state and act; operations, and what TPUs cost.

What was desired is carried out after a restart, a lost link or a preemption, without a request.
"""
