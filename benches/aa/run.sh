# A/A: campaigns of the length of the quickstart in which every gateway has a control, the same once more. What is declared between the two is a false
# positive. On an idle machine, or on a busy one: noise may leave campaigns without a decision, and must not declare differences.
need nginx haproxy
need_measured
exec python3 benches/aa/aa.py --out "$out" "$@"
