import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # helpers.py
sys.path.insert(0, str(Path(__file__).parent.parent))  # the transcriptions of the papers: paper/
