#!/bin/sh
# Same source, options, vocabulary and version give the same bytes: compile in fresh processes with different hash
# seeds and compare the packages.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for seed in 0 1 4242; do
    PYTHONHASHSEED=$seed schemac compile examples/order.schema.json --tokenizer tekken -o "$folder/$seed.pkg" >/dev/null
    cmp "$folder/0.pkg" "$folder/$seed.pkg"
done
echo "determinism: 3 compiles, identical packages"
