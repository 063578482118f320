"""Comparisons that are in none of the papers."""
