module weir/benches/protocols/upstream

go 1.26.0
