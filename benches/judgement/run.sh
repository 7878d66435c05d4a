# The judge held to what is known: a campaign with a Weir that is a tenth dearer on purpose, run twice. Every two sends of a request work for BUSY_NS each.
need_apt nginx-light haproxy
need_program cc "A C compiler makes dearer.so."
need_release
cc -O2 -Wall -shared -fPIC -o "$WEIR_CACHE/dearer.so" benches/judgement/dearer.c -ldl
export LD_LIBRARY_PATH=$WEIR_CACHE${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec python3 benches/judgement/judge.py --out "$out" "$@"
