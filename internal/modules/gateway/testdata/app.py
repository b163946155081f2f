import hashlib, time

def application(env, start):
    path = env["PATH_INFO"]
    if path == "/env":
        start("200 OK", [("Content-Type", "text/plain")])
        return [("%s|%s|%s|%s|%s|%s" % (env["REQUEST_METHOD"], env["SCRIPT_NAME"], path, env["QUERY_STRING"],
            env["wsgi.url_scheme"], env.get("HTTP_PROXY", "-"))).encode()]
    if path == "/sum":
        h, n = hashlib.sha256(), 0
        while True:
            p = env["wsgi.input"].read(65536)
            if not p: break
            h.update(p); n += len(p)
        body = ("%d %s" % (n, h.hexdigest())).encode()
        start("200 OK", [("Content-Length", str(len(body)))])
        return [body]
    if path == "/stream":
        start("200 OK", [("Content-Type", "text/event-stream")])
        def events():
            for i in range(3):
                yield ("data: %d\n\n" % i).encode()
                time.sleep(0.05)
        return events()
    if path == "/large":
        start("200 OK", [])
        return (b"x" * 65536 for _ in range(256))
    if path == "/raise":
        raise ValueError("on purpose")
    if path == "/teapot":
        start("418 I'm a teapot", [("X-A", "b"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Content-Length", "0")])
        return []
    if path == "/unread":
        start("403 Forbidden", [("Content-Length", "2")])
        return [b"no"]
    if path == "/short":
        start("200 OK", [("Content-Length", "100")])
        return [b"short"]
    if path == "/die":
        start("200 OK", [("Content-Length", "100")])
        def body():
            yield b"begin"
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)
        return body()
    start("404 Not Found", [])
    return [b"nothing at " + path.encode("latin-1")]
