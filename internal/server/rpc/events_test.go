package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"steward/internal/fault"
	"steward/internal/server/auth"
	"steward/test/rpc/pb"
	"steward/test/served"
	"steward/test/storetest"
)

// stream subscribes as grpc-go does.
func (s *world) stream(ctx context.Context, in *pb.SubscribeRequest, header ...string) *stream {
	s.t.Helper()
	desc := pb.File_event_proto.Services().ByName("Event").Methods().ByName("Subscribe")
	if !desc.IsStreamingServer() || desc.IsStreamingClient() {
		s.t.Fatal("Subscribe is another kind of stream")
	}
	cs, err := s.conn.NewStream(metadata.AppendToOutgoingContext(ctx, header...), &grpc.StreamDesc{ServerStreams: true}, "/event.Event/Subscribe")
	if err == nil {
		if err = cs.SendMsg(in); err == nil {
			err = cs.CloseSend()
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return &stream{s.t, cs.RecvMsg}
}

type stream struct {
	t    *testing.T
	recv func(any) error
}

func (s *stream) next() *pb.Occurrence {
	s.t.Helper()
	out := new(pb.Occurrence)
	if err := s.recv(out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// told reads the next event, and skips messages without one.
func (s *stream) told() *pb.Occurrence {
	s.t.Helper()
	for {
		if x := s.next(); x.GetId() != "" {
			return x
		}
	}
}

func (s *stream) ends(code codes.Code, reason string) {
	s.t.Helper()
	for {
		err := s.recv(new(pb.Occurrence))
		if err == nil {
			continue
		}
		if status.Code(err) != code || reason != "" && !strings.Contains(fmt.Sprint(status.Convert(err).Details()), reason) {
			s.t.Fatalf("it ends with %v", err)
		}
		return
	}
}

func TestSubscribeByGRPC(t *testing.T) {
	h := served.NewEvents(t, storetest.NewModel(), 0)
	s := serve(t, auth.Options{Keys: keys{}}, Options{Events: h})
	ctx := t.Context()
	anna := []string{"authorization", "Bearer " + annas}
	h.Put("anna", "before")
	st := s.stream(ctx, &pb.SubscribeRequest{Types: []string{"note.Note", "home.Lamp"}, Bodies: true}, anna...)
	first := st.next()
	if first.GetId() != "" || first.GetCursor() == "" {
		t.Errorf("it begins with %v", first)
	}
	h.Put("eve", "eves")
	h.Put("anna", "a")
	x := st.told()
	r := x.GetResources()[0]
	if x.GetSource() != "user:anna" || x.GetDetailType() != pb.DetailType_RESOURCE_PUT || x.GetPublished() || x.GetSeq() != 3 || x.GetUri() != "cld:note.Note.a" ||
		r.GetUri() != x.GetUri() || r.GetType() != "note.Note" || r.GetSpace() != "user:anna" || r.GetVersion() != 1 || r.GetState() != "new" || r.GetBody() != `{"n":12345678901234567890}` {
		t.Errorf("%v", x)
	}
	if _, err := time.Parse(time.RFC3339Nano, x.GetTime()); err != nil {
		t.Error(err)
	}
	// A published event arrives, and its id deduplicates it.
	in := &pb.Occurrence{Id: "one", Time: "2030-01-02T03:04:05.5Z", DetailType: pb.DetailType_RESOURCE_DELETE,
		Resources: []*pb.Resource{{Uri: "cld:home.Lamp.kitchen", Body: `{"on": true}`}}}
	var done, again pb.PublishResponse
	if err := s.grpc("/event.Event/Publish", in, &done, anna...); err != nil || !done.GetSuccess() || done.GetDuplicate() {
		t.Fatalf("%v, %v", &done, err)
	}
	if err := s.grpc("/event.Event/Publish", in, &again, anna...); err != nil || !again.GetDuplicate() || again.GetId() != done.GetId() {
		t.Fatalf("%v, %v", &again, err)
	}
	y := st.told()
	if y.GetId() != done.GetId() || y.GetUri() != done.GetUri() || y.GetCursor() != done.GetCursor() || !y.GetPublished() || y.GetTime() != "2030-01-02T03:04:05.5Z" ||
		y.GetDetailType() != pb.DetailType_RESOURCE_DELETE || y.GetResources()[0].GetBody() != `{"on":true}` {
		t.Errorf("%v", y)
	}
	// Another stream starts from a cursor, and ends when its client cancels it.
	once, stop := context.WithCancel(ctx)
	more := s.stream(once, &pb.SubscribeRequest{Prefixes: []string{"cld:home.Lamp.kitchen"}, Sources: []string{"user:*"}, DetailTypes: []string{"RESOURCE_DELETE"}, Cursor: "start"}, anna...)
	if z := more.told(); z.GetId() != y.GetId() || z.GetResources()[0].GetBody() != "" {
		t.Errorf("%v", z)
	}
	stop()
	more.ends(codes.Canceled, "")
	if z := s.stream(ctx, &pb.SubscribeRequest{Cursor: x.GetCursor()}, anna...).told(); z.GetId() != y.GetId() {
		t.Errorf("%v", z)
	}
	// All streams end when the server closes.
	s.server.Close()
	st.ends(codes.Unavailable, "CLOSING")
}

func TestSubscribeRefuses(t *testing.T) {
	h := served.NewEvents(t, storetest.NewModel(), 0)
	s := serve(t, auth.Options{Keys: keys{}}, Options{Events: h})
	ctx := t.Context()
	anna := []string{"authorization", "Bearer " + annas}
	s.stream(ctx, &pb.SubscribeRequest{}).ends(codes.Unauthenticated, "KEY_MISSING")
	s.stream(ctx, &pb.SubscribeRequest{Prefixes: []string{"cld:x"}}, anna...).ends(codes.InvalidArgument, "URI_INVALID")
	s.stream(ctx, &pb.SubscribeRequest{DetailTypes: []string{"PUT"}}, anna...).ends(codes.InvalidArgument, "FILTER_INVALID")
	s.stream(ctx, &pb.SubscribeRequest{Cursor: "x"}, anna...).ends(codes.InvalidArgument, "CURSOR_INVALID")
	lamp := []*pb.Resource{{Uri: "cld:home.Lamp.kitchen"}}
	for _, c := range []struct {
		in   *pb.Occurrence
		code codes.Code
	}{
		{&pb.Occurrence{}, codes.InvalidArgument},
		{&pb.Occurrence{Resources: lamp, Time: "yesterday"}, codes.InvalidArgument},
		{&pb.Occurrence{Resources: lamp, DetailType: 7}, codes.InvalidArgument},
		{&pb.Occurrence{Resources: []*pb.Resource{{Uri: "lamp"}}}, codes.InvalidArgument},
		{&pb.Occurrence{Resources: []*pb.Resource{{Uri: "cld:home.Lamp.kitchen", Body: "{"}}}, codes.InvalidArgument},
		{&pb.Occurrence{Resources: lamp, Source: "user:eve"}, codes.PermissionDenied},
		{&pb.Occurrence{Resources: lamp, Space: "group:team"}, codes.PermissionDenied},
	} {
		if err := s.grpc("/event.Event/Publish", c.in, new(pb.PublishResponse), anna...); status.Code(err) != c.code {
			t.Errorf("%v: %v", c.in, err)
		}
	}
	if err := s.grpc("/event.Event/Publish", &pb.Occurrence{Resources: lamp}, new(pb.PublishResponse)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a key: %v", err)
	}
	none := serve(t, auth.Options{}, Options{})
	none.stream(ctx, &pb.SubscribeRequest{}).ends(codes.Unimplemented, "EVENTS_MISSING")
	if err := none.grpc("/event.Event/Publish", &pb.Occurrence{Resources: lamp}, new(pb.PublishResponse)); status.Code(err) != codes.Unimplemented {
		t.Errorf("without events: %v", err)
	}
}

var revoked = error(fault.New(fault.Unauthentic, "key_revoked", "the key was revoked"))

// A subscriber with a revoked key gets no more events, and an error even if nothing
// happens.
func TestRevokedKeyEndsStreams(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		h, k := served.NewEvents(t, storetest.NewModel(), map[bool]time.Duration{false: time.Hour, true: 20 * time.Millisecond}[quiet]), &served.Keys{User: "anna"}
		s := serve(t, auth.Options{Keys: k}, Options{Events: h})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		st := s.stream(ctx, &pb.SubscribeRequest{}, "authorization", "Bearer "+annas)
		st.next()
		k.Gone.Store(&revoked)
		if !quiet {
			h.Put("anna", "secret")
		}
		for {
			x := new(pb.Occurrence)
			err := st.recv(x)
			if err == nil && x.GetId() == "" {
				continue
			}
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("told %v, %v", x, err)
			}
			break
		}
		cancel()
	}
}

// The same stream over gRPC-Web and as Connect's JSON, as browsers read it.
func TestSubscribeFromTheWeb(t *testing.T) {
	h := served.NewEvents(t, storetest.NewModel(), 0)
	s := serve(t, auth.Options{}, Options{Events: h})
	h.Put("local", "a")
	open := func(contentType string, body []byte) *bufio.Reader {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.http.URL+"/event.Event/Subscribe",
			bytes.NewReader(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", contentType)
		res, err := s.http.Client().Do(r)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", res, err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return bufio.NewReader(res.Body)
	}
	for _, typ := range []string{"application/grpc-web+json", "application/connect+json"} {
		in := open(typ, []byte(`{"cursor":"start"}`))
		var x struct{ Source, DetailType, Seq, Cursor string }
		for x.Source == "" {
			head := make([]byte, 5)
			if _, err := io.ReadFull(in, head); err != nil {
				t.Fatal(err)
			}
			msg := make([]byte, binary.BigEndian.Uint32(head[1:]))
			if _, err := io.ReadFull(in, msg); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(msg, &x); err != nil || head[0] != 0 {
				t.Fatalf("%s: %s, %v", typ, msg, err)
			}
		}
		if x.Source != "user:local" || x.Seq != "1" || x.Cursor == "" {
			t.Errorf("%s: %+v", typ, x)
		}
	}
	// Publish with plain JSON, as curl does.
	code, _, body := s.post("/event.Event/Publish", `{"resources":[{"uri":"cld:home.Lamp.kitchen"}],"detail_type":"RESOURCE_GET"}`)
	if code != http.StatusOK || !strings.Contains(body, `"success":true`) {
		t.Errorf("%d %s", code, body)
	}
	s.server.Close()
}
