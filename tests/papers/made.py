"""Claims with their numbers in one call, for tests of what is done with claims."""

from penstock_papers import sentences


def within(id, claim, paper, ours, low=None, high=None, **more):
    return sentences.within(id, claim, paper, low, high, **more).with_number(ours)


def about(id, claim, paper, ours, number, **more):
    return sentences.about(id, claim, paper, number, **more).with_number(ours)


def as_said(id, claim, paper, ours, word, **more):
    return sentences.as_said(id, claim, paper, word, **more).with_number(ours)


def ascending(id, claim, paper, numbers, **more):
    return sentences.ascending(id, claim, paper, **more).with_number(numbers)


def holds(id, claim, paper, ours, ok, band="holds", **more):
    return sentences.holds(id, claim, paper, band, **more).with_number((ok, ours))
