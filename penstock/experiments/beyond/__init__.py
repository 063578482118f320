"""Beyond the papers: comparisons that none of them has."""
