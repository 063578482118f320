"""python -m penstock_net.vswitch.bench"""

from penstock_net.vswitch.bench.command import main

main()
