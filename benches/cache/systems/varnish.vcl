vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "@upstream@"; }
sub vcl_backend_response { set beresp.ttl = 1h; }
