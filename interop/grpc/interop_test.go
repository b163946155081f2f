// Package grpc runs the interoperability cases of gRPC: clients of grpc-go and connect-go against
// their handlers of net/http, which a lwango server calls by the bridge over HTTP/2; and against
// the server of grpc-go behind module proxy.
package grpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/embedded"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// cases are those of grpc-go that need no account of a cloud.
// https://github.com/grpc/grpc/blob/master/doc/interop-test-descriptions.md says what they check.
var cases = map[string]func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption){
	"empty_unary":                 interop.DoEmptyUnaryCall,
	"large_unary":                 interop.DoLargeUnaryCall,
	"client_streaming":            interop.DoClientStreaming,
	"server_streaming":            interop.DoServerStreaming,
	"ping_pong":                   interop.DoPingPong,
	"empty_stream":                interop.DoEmptyStream,
	"timeout_on_sleeping_server":  interop.DoTimeoutOnSleepingServer,
	"cancel_after_begin":          interop.DoCancelAfterBegin,
	"cancel_after_first_response": interop.DoCancelAfterFirstResponse,
	"custom_metadata":             interop.DoCustomMetadata,
	"status_code_and_message":     interop.DoStatusCodeAndMessage,
	"special_status_message":      interop.DoSpecialStatusMessage,
}

// fatal makes a case that fails end its test, where it would end the process.
type fatal struct{ grpclog.LoggerV2 }

func (fatal) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (fatal) Fatalln(args ...any)               { panic(fmt.Sprintln(args...)) }
func (fatal) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func init() { grpclog.SetLoggerV2(fatal{grpclog.NewLoggerV2(none{}, none{}, none{})}) }

type none struct{}

func (none) Write(p []byte) (int, error) { return len(p), nil }

// run runs a case.
func run(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Error(r)
		}
	}()
	f()
}

var insecureTLS = &tls.Config{InsecureSkipVerify: true}

// both runs a test without TLS and with it, against a server that gives every request to h.
func both(t *testing.T, h http.Handler,
	test func(t *testing.T, addr string, creds credentials.TransportCredentials)) {
	t.Run("h2c", func(t *testing.T) {
		r, stop := embedded.Start(t,
			lwango.Server{Addr: "127.0.0.1:0", HTTP2: true, Handler: lwango.HTTP(h)})
		defer stop()
		test(t, r.Addrs()[0], insecure.NewCredentials())
	})
	t.Run("TLS", func(t *testing.T) {
		r, stop := embedded.Start(t,
			lwango.Server{Addr: "127.0.0.1:0", TLS: modes.ServerTLS(), Handler: lwango.HTTP(h)})
		defer stop()
		test(t, r.Addrs()[0], credentials.NewTLS(insecureTLS))
	})
}

// TestGRPC runs the cases against grpc-go's handler of net/http.
func TestGRPC(t *testing.T) {
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
	defer s.Stop()
	both(t, s, func(t *testing.T, addr string, creds credentials.TransportCredentials) {
		runCases(t, addr, creds)
	})
}

// runCases runs the cases against the server at an address, but for some.
func runCases(t *testing.T, addr string, creds credentials.TransportCredentials, not ...string) {
	cc := must.Get(grpc.NewClient(addr, grpc.WithTransportCredentials(creds)))(t)
	defer cc.Close()
	client := testgrpc.NewTestServiceClient(cc)
	for name, test := range cases {
		if slices.Contains(not, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			run(t, func() { test(ctx, client) })
		})
	}
	t.Run("unimplemented_method", func(t *testing.T) {
		run(t, func() { interop.DoUnimplementedMethod(t.Context(), cc) })
	})
	t.Run("unimplemented_service", func(t *testing.T) {
		run(t, func() {
			interop.DoUnimplementedService(t.Context(), testgrpc.NewUnimplementedServiceClient(cc))
		})
	})
}

// TestFails: a case that fails is one.
func TestFails(t *testing.T) {
	nothing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusTeapot)
	})
	both(t, nothing, func(t *testing.T, addr string, creds credentials.TransportCredentials) {
		cc := must.Get(grpc.NewClient(addr, grpc.WithTransportCredentials(creds)))(t)
		defer cc.Close()
		defer func() {
			if r := fmt.Sprint(recover()); !strings.Contains(r, "418") {
				t.Errorf("%s, want an error with 418", r)
			}
		}()
		interop.DoEmptyUnaryCall(t.Context(), testgrpc.NewTestServiceClient(cc))
	})
}
