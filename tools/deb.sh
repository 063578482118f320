#!/bin/sh
# The Debian package of the switch, from the last commit: tools/deb.sh FOLDER. Needs dpkg-dev, debhelper, dh-python, python3-dev, python3-pip, gcc.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
when=$(git log -1 --format=%cD)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
mkdir "$folder/penstock"
git archive HEAD | tar -x -C "$folder/penstock"
cd "$folder/penstock"
cp -r packaging/debian debian
cat >debian/changelog <<EOF
penstock ($version) unstable; urgency=medium

  * See CHANGELOG.md.

 -- The penstock authors <penstock@example.org>  $when
EOF
dpkg-buildpackage -b -us -uc
mv "$folder"/*.deb "$folder"/*.buildinfo "$folder"/*.changes "$out"
