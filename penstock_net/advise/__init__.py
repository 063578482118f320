"""What vendors set in their switches: their formulas, and tables of their platforms."""
