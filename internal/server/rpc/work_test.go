package rpc

import (
	"context"
	"iter"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/server/auth"
	"steward/internal/store"
	"steward/internal/turn"
	pb "steward/test/rpc/workpb"
)

// refusing is a runtime whose turns fail.
type refusing struct{ turns []turn.Input }

func (r *refusing) Send(_ context.Context, _ string, t turn.Input) (turn.Accepted, error) {
	r.turns = append(r.turns, t)
	return turn.Accepted{Conversation: id.New(), Interaction: id.ID{15: 1}, Message: id.New()}, nil
}

func (r *refusing) Watch(context.Context, string, id.ID, turn.Cursor) iter.Seq2[turn.Frame, error] {
	return func(yield func(turn.Frame, error) bool) {
		_ = yield(turn.Frame{Kind: turn.FrameError, Interaction: id.New(), Err: fault.New(fault.Denied, "others", "of another turn")}, nil) &&
			yield(turn.Frame{Kind: turn.FrameError, Interaction: id.ID{15: 1}, Err: fault.New(fault.Exhausted, "model_busy", "not now")}, nil)
	}
}

func (r *refusing) Tasks(context.Context, string, resource.URI, store.Cursor, int) ([]requests.PlannedTask, store.Cursor, error) {
	return nil, "", nil
}
func (r *refusing) Agents(context.Context) []kits.AgentView { return nil }

// TestProcess: the turn is that of the message, and its errors are those of the call.
func TestProcess(t *testing.T) {
	work := &refusing{}
	s := serve(t, auth.Options{}, Options{Work: work})
	process := func(s *world, method string, in *pb.MessageV2) (told []*pb.MessageV2, err error) {
		cs, err := s.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, method)
		if err == nil {
			err = cs.SendMsg(in)
		}
		if err == nil {
			err = cs.CloseSend()
		}
		for err == nil {
			m := &pb.MessageV2{}
			if err = cs.RecvMsg(m); err == nil {
				told = append(told, m)
			}
		}
		return told, err
	}
	in := &pb.MessageV2{Content: "hello", Assistant: proto.String("desk"), Id: proto.String("mine")}
	for method, agent := range map[string]string{"/plan.Plan/Process": kits.PlannerAgent, "/assistant.Assistant/Process": "desk"} {
		told, err := process(s, method, in)
		if status.Code(err) != codes.ResourceExhausted || len(told) != 1 || told[0].Content != "hello" || told[0].GetMeta().GetUri() == "" || told[0].GetConversation() == "" {
			t.Errorf("%s: %v %v", method, told, err)
		}
		if got := work.turns[len(work.turns)-1]; got.Agent != agent || got.ClientID != "mine" || got.Attended != (agent == kits.PlannerAgent) {
			t.Errorf("%s: %+v", method, got)
		}
	}
	for _, bad := range []*pb.MessageV2{{Role: "system"}, {Conversation: proto.String("x")}} {
		if told, err := process(s, "/plan.Plan/Process", bad); err == nil || len(told) > 0 || len(work.turns) != 2 {
			t.Errorf("%v: %v %v", bad, told, err)
		}
	}
	none := serve(t, auth.Options{}, Options{})
	if _, err := process(none, "/plan.Plan/Process", in); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
	if err := s.conn.Invoke(t.Context(), "/plan.Plan/ListTasks", &pb.ListTasksRequest{Uri: "nothing"}, &pb.ListTasksResponse{}); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}
