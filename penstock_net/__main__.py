"""`python -m penstock_net` is the command `penstock`."""

import sys

from penstock_net.cli import main

sys.exit(main())
