import hashlib, json, time
from flask import Flask, Response, jsonify, redirect, request, session, url_for
from werkzeug.middleware.proxy_fix import ProxyFix

application = Flask(__name__)
application.secret_key = "only for a test"
# Behind the module proxy, which says where the client sees the application.
application.wsgi_app = ProxyFix(application.wsgi_app, x_for=1, x_proto=1, x_host=1, x_prefix=1)

@application.get("/hello/<name>")
def hello(name):
    return "|".join([name, request.args.get("q", ""), request.script_root, request.host, request.scheme,
        request.remote_addr, request.headers.get("X-A", "")])

@application.get("/go")
def go():
    return redirect(url_for("hello", name="ä b", q="1&2"))

@application.get("/count")
def count():
    session["n"] = session.get("n", 0) + 1
    return str(session["n"])

@application.get("/token")
def token():
    return ""

@application.post("/form")
def form():
    return request.form["a"]

@application.post("/upload")
def upload():
    f = request.files["f"]
    return f.filename + " " + hashlib.sha256(f.read()).hexdigest()

@application.put("/json")
def put():
    return jsonify(request.get_json()["a"])

@application.get("/stream")
def stream():
    def events():
        for i in range(3):
            yield "data: %d\n\n" % i
            time.sleep(0.02)
    return Response(events(), mimetype="text/event-stream")

@application.get("/error")
def error():
    raise ValueError("on purpose")
