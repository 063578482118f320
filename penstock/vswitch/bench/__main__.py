"""python -m penstock.vswitch.bench"""

from penstock.vswitch.bench.command import main

main()
