"""BFC 32 (CC) of figures 15 and 16: BFC with Algorithm 1 of appendix A.1."""

from penstock_papers.bfc._fabric import BFC, Scheme

BFC_CC = Scheme("BFC 32 (CC)", {**BFC.table, "name": "bfc+rtt_target"}, nth=1, run="bfc_cc")
