package edge_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"steward/test/edge"
)

// key creates a key for a user and returns the header that carries it.
func key(n *edge.Node, user string) []string {
	n.T.Helper()
	return []string{"Authorization", "Bearer " + n.Key(user)}
}

func secretOf(header []string) string { return strings.TrimPrefix(header[1], "Bearer ") }

// fill stores the canary for ada wherever a user can store something.
func fill(n *edge.Node, ada []string) {
	n.T.Helper()
	do := func(method, path string, body any, more ...string) {
		n.T.Helper()
		if status, b := n.HTTP(method, path, body, append(more, ada...)...); status >= 300 {
			n.T.Fatalf("%s %s: %d %s", method, path, status, b)
		}
	}
	note := "/api/v1/resources/item?uri=cld:identity.User.ada/home.Note."
	n.Dial(secretOf(ada)).Turn(map[string]any{"content": "remember " + canary}, nil)
	do("PUT", note+"a", map[string]string{"text": canary})
	do("PUT", note+"b", map[string]string{"text": canary})
	do("DELETE", note+"b", nil) // only the log has it now
	do("PUT", "/api/v1/profile", map[string]string{"location": canary})
	do("PUT", "/services/v1/state/k", canary, "Steward-Agent", "desk")
	do("POST", "/services/v1/db/exec", map[string]any{"statements": []any{
		map[string]any{"sql": "create table t (x)"}, map[string]any{"sql": "insert into t values (?)", "args": []string{canary}}}}, "Steward-Agent", "desk")
	event := func(space string) map[string]any {
		return map[string]any{"space": space, "resources": []any{map[string]any{"uri": "cld:home.Lamp.1", "body": `"` + canary + `"`}}}
	}
	do("POST", "/event.Event/Publish", event("user:ada"))
	do("POST", "/event.Event/Publish", event("group:family"))
	n.Must("search", canary) // the index has it
}

func TestADeletedUserIsInNoFile(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: talker(t)})
	n.Must("users", "add", "ada", "--name", canary)
	n.Must("groups", "add", "family", "--member", "ada")
	ada := key(n, "ada")
	fill(n, ada)
	if len(holders(n, canary)) == 0 {
		t.Fatal("the text is in no file before it is erased")
	}
	n.Must("users", "delete", "--yes", "ada")
	if left := holders(n, canary); left != nil {
		t.Errorf("the text is still in %v", left)
	}
	if status, b := n.HTTP("GET", "/api/v1/conversations", nil, ada...); status != http.StatusUnauthorized {
		t.Errorf("the key still opens: %d %s", status, b)
	}
	if out := n.Must("users", "list"); strings.Contains(out, "ada") {
		t.Errorf("it is still listed:\n%s", out)
	}
	if out := n.Must("groups", "show", "family"); strings.Contains(out, "ada") {
		t.Errorf("it is still a member:\n%s", out)
	}
	again := key(n, "ada")
	status, b := n.HTTP("GET", "/api/v1/conversations", nil, again...)
	if status != 200 || strings.Contains(string(b), `"id"`) {
		t.Errorf("a new ada finds %d %s", status, b)
	}
	n.Stop()
	n.Must("audit", "verify")
	if out := n.Must("audit", "export"); !strings.Contains(out, `"did":"erase","type":"identity.Account","uri":"cld:identity.Account.ada"`) {
		t.Errorf("the log does not tell that ada was deleted:\n%s", out)
	}
}

func TestAUserIsDeletedWithoutAServer(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: talker(t)})
	n.Must("groups", "add", "family", "--member", "ada")
	fill(n, key(n, "ada"))
	n.Ask("mine stays", nil)
	n.Stop()
	n.Must("users", "delete", "--yes", "ada")
	if left := holders(n, canary); left != nil {
		t.Errorf("the text is still in %v", left)
	}
	if out := n.Must("search", "stays"); !strings.Contains(out, "mine stays") {
		t.Errorf("what is another's is gone: %s", out)
	}
}

func TestAUserWhoseTurnRunsIsDeleted(t *testing.T) {
	t.Parallel()
	asked, going := make(chan struct{}), make(chan struct{})
	n := edge.Serve(t, edge.Options{Model: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/chat/completions") && !strings.HasSuffix(r.URL.Path, "/responses") {
			http.NotFound(w, r)
			return
		}
		io.Copy(io.Discard, r.Body) //nolint:errcheck // nothing is made of it
		close(asked)
		select {
		case <-going:
		case <-r.Context().Done():
		}
	})})
	c := n.Dial(secretOf(key(n, "ada")))
	c.Send(map[string]any{"type": "message", "id": "1", "content": "remember " + canary})
	<-asked
	n.Must("users", "delete", "--yes", "ada")
	if left := holders(n, canary); left != nil {
		t.Errorf("the text is still in %v", left)
	}
	close(going)
	c.Ended()
	if left := holders(n, canary); left != nil {
		t.Errorf("the turn wrote it again, into %v", left)
	}
}

func TestUsersThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	n.Must("users", "add", "ada", "--role", "admin")
	n.Must("users", "add", "bob")
	ada, bob := key(n, "ada"), key(n, "bob")
	for _, c := range []struct {
		by   []string
		user string
		code string
	}{
		{nil, "local", "own_user"}, {ada, "ada", "own_user"}, {ada, "local", "own_user_only"},
		{bob, "ada", "admin_only"}, {bob, "bob", "admin_only"}, {ada, "nobody", "user_not_found"},
	} {
		status, b := n.HTTP("DELETE", "/api/v1/users/"+c.user, nil, c.by...)
		if status < 400 || !strings.Contains(string(b), `"`+c.code+`"`) {
			t.Errorf("%s by %v: %d %s", c.user, c.by, status, b)
		}
	}
	if status, b := n.HTTP("DELETE", "/api/v1/users/bob", nil, ada...); status != http.StatusNoContent {
		t.Errorf("%d %s", status, b)
	}
	n.Must("users", "set", "local", "--role", "member")
	if r := n.Run("users", "delete", "--yes", "ada"); r.Code == 0 || !strings.Contains(r.Err, "last_admin") {
		t.Errorf("the last admin: %+v", r)
	}
	if status, b := n.HTTP("GET", "/api/v1/users", nil, ada...); status != http.StatusOK {
		t.Errorf("who stays is shut out: %d %s", status, b)
	}
}
