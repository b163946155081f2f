vcl 4.1;

# As it comes, but for a number in each answer whose length changes: clients compare lengths.
backend default {
    .host = "127.0.0.1";
    .port = "{{.BackendPort}}";
}

sub vcl_deliver {
    unset resp.http.X-Varnish;
}
