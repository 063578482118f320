"""python -m penstock.vswitch.bench"""

from penstock.vswitch.bench.bench import main

main()
