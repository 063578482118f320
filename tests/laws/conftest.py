"""For the laws: networks.py and the transcriptions of the papers can be imported."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # networks.py
sys.path.insert(0, str(Path(__file__).parent.parent))  # the transcriptions of the papers: paper/
