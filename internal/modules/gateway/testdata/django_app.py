import hashlib, json, time
from django.conf import settings

settings.configure(
    DEBUG=False, ALLOWED_HOSTS=["*"], SECRET_KEY="only for a test", ROOT_URLCONF=__name__,
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
    USE_X_FORWARDED_HOST=True, SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
    DATA_UPLOAD_MAX_MEMORY_SIZE=None)

from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils.http import urlencode
from django.views.decorators.csrf import csrf_exempt

def text(s):
    return HttpResponse(s, content_type="text/plain")

def hello(request, name):
    return text("|".join([name, request.GET.get("q", ""), request.META["SCRIPT_NAME"], request.get_host(),
        request.scheme, request.META["REMOTE_ADDR"], request.headers.get("X-A", "")]))

def go(request):
    return redirect(reverse(hello, args=["ä b"]) + "?" + urlencode({"q": "1&2"}))

def count(request):
    request.session["n"] = request.session.get("n", 0) + 1
    return text(str(request.session["n"]))

def token(request):
    return text(get_token(request))

def form(request):
    return text(request.POST["a"])

@csrf_exempt
def upload(request):
    f = request.FILES["f"]
    return text(f.name + " " + hashlib.sha256(f.read()).hexdigest())

@csrf_exempt
def put(request):
    return JsonResponse(json.loads(request.body)["a"], safe=False)

def stream(request):
    def events():
        for i in range(3):
            yield "data: %d\n\n" % i
            time.sleep(0.02)
    return StreamingHttpResponse(events(), content_type="text/event-stream")

def error(request):
    raise ValueError("on purpose")

urlpatterns = [path("hello/<name>", hello), path("go", go), path("count", count), path("token", token),
    path("form", form), path("upload", upload), path("json", put), path("stream", stream), path("error", error)]

application = get_wsgi_application()
