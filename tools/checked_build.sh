#!/bin/sh
# Builds the core with index checks, AddressSanitizer and UndefinedBehaviorSanitizer in a folder of its own and runs the small
# cases of every scheme there, on one and two threads. Any report of a sanitizer fails.
#
#     tools/checked_build.sh [FOLDER]       PYTHON=... with penstock's dependencies and pytest; default: python3
#
# Needs gcc with libasan and libubsan. A second call with the same FOLDER rebuilds only what has changed.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-${TMPDIR:-/tmp}/penstock-checked}
python=${PYTHON:-python3}
# -fno-wrapv: Python's own flags contain -fwrapv, which would hide signed overflow.
sanitize="-fsanitize=address,undefined"
flags="-O1 -g -w -fno-wrapv -ffp-contract=off -DPENSTOCK_CHECK $sanitize"

mkdir -p "$folder"
(cd "$root" && tar --exclude='*.so' --exclude='*.c' --exclude=__pycache__ -cf - penstock setup.py pyproject.toml README.md tools tests/unit) |
    tar -xf - -C "$folder"
cd "$folder"
PENSTOCK_CFLAGS=$flags "$python" setup.py -q build_ext --inplace -j "$(nproc 2>/dev/null || echo 2)" >build.log 2>&1 ||
    { tail -30 build.log; exit 1; }

status=0
# A user's scheme is compiled when it is loaded, by $CC.
PYTHONPATH=$folder \
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1 \
CC="gcc -fno-wrapv -DPENSTOCK_CHECK $sanitize" XDG_CACHE_HOME=$folder/cache \
    "$python" tools/checked_cases.py >checked.log 2>&1 || status=1
grep -q -e 'runtime error:' -e 'ERROR: AddressSanitizer' -e 'penstock: index' checked.log && status=1
grep -v '^case ' checked.log | head -100
echo "$(grep -c '^case ' checked.log) runs; the whole log: $folder/checked.log"
[ $status = 0 ] && echo "no report" || echo "FAILED"
exit $status
