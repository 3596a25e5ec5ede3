package runtime_test

import (
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/tree"
)

// An entry of the work log is a resource of whose call it was, below the
// message that makes the call.
func TestWorkLogAsResources(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, "call math.multiply {\"a\":6,\"b\":7}\ncall math.multiply {\"a\":2,\"b\":3}")
	ctx, all := t.Context(), w.Resources()
	anna, ben := tree.Caller{User: "anna"}, tree.Caller{User: "ben"}
	page, err := all.List(ctx, anna, tree.Query{Type: "worklog.Entry", Bodies: true})
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, r := range page.Items {
		if r.Space != resource.UserSpace("anna") || r.At.IsZero() || r.Purpose != "Math: multiply" ||
			!strings.Contains(r.URI.String(), conv.String()) || !strings.Contains(string(r.Body), `"outcome":"success"`) {
			t.Errorf("%+v", r)
		}
		got, err := all.Get(ctx, anna, r.URI)
		if err != nil || string(got.Body) != string(r.Body) {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := all.Get(ctx, ben, r.URI); !fault.Is(err, fault.NotFound) {
			t.Errorf("another user's: %v", err)
		}
		for _, wrong := range []resource.URI{resource.Root("common.Message", id.New().String()).Child("worklog.Entry", "0"),
			r.URI.Parent().Child("worklog.Entry", "99"), r.URI.Parent().Child("worklog.Entry", "x"),
			resource.Root("common.Message", r.URI.Parent().ID()).Child("worklog.Entry", r.URI.ID())} {
			if _, err := all.Get(ctx, anna, wrong); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", wrong, err)
			}
		}
	}
	if page, err = all.List(ctx, ben, tree.Query{Type: "worklog.Entry"}); err != nil || len(page.Items) != 0 {
		t.Errorf("ben sees %+v, %v", page, err)
	}
	if page, err = all.List(ctx, anna, tree.Query{Type: "worklog.Entry", Under: resource.Root("common.Conversation", id.New().String())}); err != nil || len(page.Items) != 0 {
		t.Errorf("elsewhere: %+v, %v", page, err)
	}
	if page, err = all.List(ctx, anna, tree.Query{Limit: tree.MaxPage}); err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Items {
		if r.URI.Type() == "worklog.Entry" {
			t.Error("what is derived is listed without being asked for")
		}
	}
}
