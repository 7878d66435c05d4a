// The upstream and the Go client of the conformance suites: net/http, nothing else.
module weir.dev/conformance/peers

go 1.26.0
