# An API description with 600 operations to the configurations of all gateways.
need_release
exec python3 benches/convert/convert.py --out "$out" "$@"
