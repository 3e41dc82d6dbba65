"""Programs compiled for a TPU without one: does it fit, and what is its memory made of?"""
