"""Mnemosyne in the real host: real processes, a scripted language model, throw-away homes."""
