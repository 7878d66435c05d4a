# shellcheck shell=bash disable=SC2154
# What single steps cost: tokens and keys (crates/auth), requests held to their description (crates/openapi).
exec python3 benches/micro/micro.py --out "$out" "$@"
