"""Independent transcriptions of the papers' pseudocode: naive, readable, and the judge of the compiled schemes."""
