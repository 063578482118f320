"""Nothing here is called by other compiled parts; waiting.py describes it."""
