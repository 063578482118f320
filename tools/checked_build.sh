#!/bin/sh
# Builds the core with index checks, AddressSanitizer and UndefinedBehaviorSanitizer in a folder of its own and runs there the
# small cases of every scheme, on one and two threads, the tests of the real switch's data plane, and for a while its fuzzer.
# Any report of a sanitizer fails. --small: a few of those cases and tests, and not the fuzzer.
#
#     tools/checked_build.sh [--small] [FOLDER]       PYTHON=... with penstock's dependencies and pytest; default: python3
#
# Needs gcc with libasan and libubsan. C that Cython has written for the same sources is used again; a second call with the same
# FOLDER rebuilds only what has changed. Lines in reports are those of the C, which has the Python above them.
set -eu
tests="test_region.py test_hostile.py test_safety.py test_parsers.py"
more="test_switch.py test_overlay.py test_overlay_protocol.py test_devices.py test_schemes.py"
fuzz=yes small= level=-O1
# -O0 finds as much, and a few small cases take less time than -O1 takes to compile.
if [ "${1-}" = --small ]; then shift && more= && fuzz=no && small=--small level=-O0; fi
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-${TMPDIR:-/tmp}/penstock-checked}
python=${PYTHON:-python3}
# -fno-wrapv: Python's own flags contain -fwrapv, which would hide signed overflow.
sanitize="-fsanitize=address,undefined"
flags="$level -g1 -w -fno-wrapv -ffp-contract=off -DPENSTOCK_CHECK $sanitize"

mkdir -p "$folder"
# C and the record of what it was made from go together.
if [ -e "$folder/build" ] || [ ! -e "$root/build/contents.json" ]; then translated="--exclude=*.c"; else translated=build/contents.json; fi
(cd "$root" && tar --exclude='*.so' --exclude=__pycache__ -cf - "$translated" penstock_net penstock_papers setup.py pyproject.toml README.md MANIFEST.in LICENSE tools tests) |
    tar -xf - -C "$folder"
cd "$folder"
PENSTOCK_CFLAGS=$flags "$python" setup.py -q build_ext --inplace -j "$(nproc 2>/dev/null || echo 2)" >build.log 2>&1 ||
    { tail -30 build.log; exit 1; }

status=0
export PYTHONPATH=$folder UBSAN_OPTIONS=print_stacktrace=1 XDG_CACHE_HOME=$folder/cache
checked() {
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" "$@"
}

# A user's scheme is compiled when it is loaded, by $CC.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0
checked env CC="gcc -fno-wrapv -DPENSTOCK_CHECK $sanitize" "$python" tools/checked_cases.py $small >checked.log 2>&1 || status=1

# An access to a guard page has to end the process, as it does without the sanitizer.
export ASAN_OPTIONS=detect_leaks=0:handle_segv=0
(cd tests/vswitch &&
    checked "$python" -m pytest -s -n0 -p no:cacheprovider $tests $more &&
    { [ $fuzz = no ] || checked "$python" fuzz_region.py --seconds "${FUZZ_SECONDS:-16}" --turns 100000; }) >vswitch.log 2>&1 || status=1

grep -q -e 'runtime error:' -e 'ERROR: AddressSanitizer' -e 'penstock: index' checked.log vswitch.log && status=1
grep -v '^case ' checked.log | head -100
grep -A8 -e 'runtime error:' -e 'ERROR: AddressSanitizer' vswitch.log | head -100
tail -12 vswitch.log
echo "$(grep -c '^case ' checked.log) runs; the whole logs: $folder/checked.log, $folder/vswitch.log"
[ $status = 0 ] && echo "no report" || echo "FAILED"
exit $status
