//go:build deps

package interop

// What the suites and their tests import. It is not built: it is here for go mod tidy.
import (
	_ "github.com/gin-contrib/sse"
	_ "github.com/gin-gonic/gin"
	_ "github.com/gin-gonic/gin/binding"
	_ "github.com/gin-gonic/gin/testdata/protoexample"
	_ "github.com/go-chi/chi/v5"
	_ "github.com/go-chi/chi/v5/middleware"
	_ "github.com/go-playground/validator/v10"
	_ "github.com/json-iterator/go"
	_ "github.com/labstack/echo/v5"
	_ "github.com/labstack/echo/v5/echotest"
	_ "github.com/labstack/echo/v5/middleware"
	_ "github.com/modern-go/reflect2"
	_ "github.com/stretchr/testify/assert"
	_ "github.com/stretchr/testify/require"
	_ "github.com/ugorji/go/codec"
	_ "go.mongodb.org/mongo-driver/v2/bson"
	_ "golang.org/x/net/http2"
	_ "golang.org/x/net/websocket"
	_ "golang.org/x/time/rate"
	_ "google.golang.org/protobuf/proto"
)
