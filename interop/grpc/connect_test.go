package grpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/credentials"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

const (
	unaryCall  = "/grpc.testing.TestService/UnaryCall"
	duplexCall = "/grpc.testing.TestService/FullDuplexCall"
)

// connectHandler has a call, and a stream both ways, of the service of the cases, by connect-go. A
// stream that its client leaves is reported to left.
func connectHandler(left chan<- error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(unaryCall, connect.NewUnaryHandler(unaryCall,
		func(_ context.Context,
			req *connect.Request[pb.SimpleRequest]) (*connect.Response[pb.SimpleResponse], error) {
			if st := req.Msg.GetResponseStatus(); st.GetCode() != 0 {
				err := connect.NewError(connect.Code(st.GetCode()), errors.New(st.GetMessage()))
				err.Meta().Set("X-Why", "asked for")
				return nil, err
			}
			answer := connect.NewResponse(&pb.SimpleResponse{Payload: &pb.Payload{
				Body: make([]byte, req.Msg.GetResponseSize())}})
			answer.Trailer().Set("X-Size", req.Header().Get("X-Size"))
			return answer, nil
		}))
	mux.Handle(duplexCall, connect.NewBidiStreamHandler(duplexCall,
		func(_ context.Context,
			s *connect.BidiStream[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
			for {
				in, err := s.Receive()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					left <- err
					return err
				}
				if err := s.Send(&pb.StreamingOutputCallResponse{Payload: in.GetPayload()}); err != nil {
					return err
				}
			}
		}))
	return mux
}

// TestConnect runs clients of connect-go, by each of its protocols, against its handlers.
func TestConnect(t *testing.T) {
	left := make(chan error, 1)
	both(t, connectHandler(left),
		func(t *testing.T, addr string, creds credentials.TransportCredentials) {
			client, url := clientFor(t, creds), "https://"+addr
			if creds.Info().SecurityProtocol != "tls" {
				url = "http://" + addr
			}
			for name, option := range map[string]connect.ClientOption{
				"connect": connect.WithClientOptions(), "gRPC": connect.WithGRPC(),
				"gRPC-Web": connect.WithGRPCWeb(),
			} {
				t.Run(name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					testUnary(ctx, t,
						connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](client, url+unaryCall, option))
					testDuplex(ctx, t,
						connect.NewClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse](
							client, url+duplexCall, option), left)
				})
			}
		})
}

func testUnary(ctx context.Context, t *testing.T,
	c *connect.Client[pb.SimpleRequest, pb.SimpleResponse]) {
	req := connect.NewRequest(
		&pb.SimpleRequest{ResponseSize: 1 << 20, Payload: &pb.Payload{Body: make([]byte, 1<<20)}})
	req.Header().Set("X-Size", "large")
	answer, err := c.CallUnary(ctx, req)
	if err != nil || len(answer.Msg.GetPayload().GetBody()) != 1<<20 ||
		answer.Trailer().Get("X-Size") != "large" {
		t.Errorf("call: %v", err)
	}
	_, err = c.CallUnary(ctx, connect.NewRequest(&pb.SimpleRequest{
		ResponseStatus: &pb.EchoStatus{Code: int32(connect.CodeOutOfRange), Message: "too far"}}))
	if e := new(connect.Error); !errors.As(err, &e) || e.Code() != connect.CodeOutOfRange ||
		e.Message() != "too far" || e.Meta().Get("X-Why") != "asked for" {
		t.Errorf("error: %v", err)
	}
}

// testDuplex sends a message when the one before has come back, ends a stream, and leaves another.
func testDuplex(ctx context.Context, t *testing.T,
	c *connect.Client[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse],
	left <-chan error) {
	for _, leaves := range []bool{false, true} {
		ctx, cancel := context.WithCancel(ctx)
		s := c.CallBidiStream(ctx)
		for i := range 20 {
			sent := &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: make([]byte, i*1000)}}
			must.Do(t, s.Send(sent))
			got, err := s.Receive()
			if err != nil || len(got.GetPayload().GetBody()) != i*1000 {
				t.Fatalf("message %d: %d bytes, %v", i, len(got.GetPayload().GetBody()), err)
			}
		}
		if leaves {
			cancel()
			_ = s.CloseResponse() // the client resets its stream here
			select {
			case <-left:
			case <-time.After(wait.Patience):
				t.Error("the handler does not hear that its client has left")
			}
		} else if err := s.CloseRequest(); err != nil {
			t.Error(err)
		} else if _, err := s.Receive(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
		_ = s.CloseResponse()
		cancel()
	}
}

// clientFor speaks HTTP/2.
func clientFor(t *testing.T, creds credentials.TransportCredentials) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	if creds.Info().SecurityProtocol == "tls" {
		tr.Protocols.SetHTTP2(true)
		tr.TLSClientConfig = insecureTLS
	} else {
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}
