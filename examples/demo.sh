#!/bin/sh
# The main job from end to end: a schema becomes a package, a package becomes masks. Run it with `make demo`.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build

run() {
    printf '\n$ schemac %s\n' "$*"
    schemac "$@"
}

run compile examples/order.schema.json --tokenizer tekken --whitespace single --stats -o build/order.pkg
run inspect build/order.pkg
run sample build/order.pkg -n 3 --seed 1 --tokenizer tekken
run check build/order.pkg examples/order.good.json
# Refused with exit code 1, as it should be: 200 of an item are too many.
if run check build/order.pkg examples/order.bad.json; then
    echo "demo: the bad text was accepted" >&2
    exit 1
fi
