# shellcheck shell=bash disable=SC2154
# The judge held to what is known: a campaign with a Weir that is a tenth dearer on purpose, run twice. Every two sends of a request work for BUSY_NS each.
need nginx haproxy
need_program cc "A C compiler makes dearer.so."
need_measured
cc -O2 -Wall -shared -fPIC -o "$WEIR_BUILD/dearer.so" benches/judgement/dearer.c -ldl
export LD_LIBRARY_PATH=$WEIR_BUILD${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec python3 benches/judgement/judge.py --out "$out" "$@"
