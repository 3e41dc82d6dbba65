"""What TPUs cost: prices, grants, owners, and how long each TPU has been ready.

Nothing outside of a grant is created unless its price was confirmed.
"""
