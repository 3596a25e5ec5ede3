package mcp_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/identity"
	"steward/internal/policy"
	"steward/internal/tree"
	"steward/test/must"
)

// asking is a client whose person answers each question.
func asking(answer func(*sdk.ElicitParams) *sdk.ElicitResult) *sdk.ClientOptions {
	return &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) { return answer(r.Params), nil }}
}

func TestToolsAreListed(t *testing.T) {
	w := serve(t)
	names := func(s *sdk.ClientSession) (out []string) {
		for x, err := range s.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, x.Name)
		}
		return out
	}
	ana := w.as("ana", nil)
	list := must.Get(ana.ListTools(t.Context(), nil))
	for _, x := range list.Tools {
		a := x.Annotations
		switch x.Name {
		case "test__get":
			if !a.ReadOnlyHint || *a.DestructiveHint || !a.IdempotentHint {
				t.Errorf("%+v", a)
			}
		case "test__put":
			if a.ReadOnlyHint || !*a.DestructiveHint || a.IdempotentHint || !*a.OpenWorldHint {
				t.Errorf("%+v", a)
			}
		case "ask_assistant":
			if x.OutputSchema == nil {
				t.Error("an agent has no output schema")
			}
		}
	}
	if got := names(ana); !slices.Contains(got, "test__own") || !slices.Contains(got, "test__put") || !slices.Contains(got, "ask_assistant") {
		t.Errorf("%v", got)
	}
	if got := names(w.as("bob", nil)); slices.Contains(got, "test__own") {
		t.Errorf("a tool of somebody else is listed: %v", got)
	}
}

func TestAToolIsCalled(t *testing.T) {
	w := serve(t)
	progress := make(chan *sdk.ProgressNotificationParams, 10)
	s := w.as("ana", &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { progress <- r.Params }})
	p := &sdk.CallToolParams{Name: "test__get", Arguments: map[string]any{"what": "it"}}
	p.SetProgressToken("one")
	res := must.Get(s.CallTool(t.Context(), p))
	if object, ok := res.StructuredContent.(map[string]any); res.IsError || text(res) != `{"got":true}` || !ok || object["got"] != true || res.Meta["steward/status"] != "ok" {
		t.Errorf("%+v %s", res, text(res))
	}
	if got := <-progress; got.Message != "half" || got.Progress != 0.5 || got.Total != 1 || got.ProgressToken != "one" {
		t.Errorf("%+v", got)
	}
	if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "test__gte"}); err == nil || !strings.Contains(err.Error(), "test.get") {
		t.Errorf("an unknown tool: %v", err)
	}
	res = must.Get(s.CallTool(t.Context(), &sdk.CallToolParams{Name: "test__get", Arguments: map[string]any{}}))
	if !res.IsError || !strings.Contains(text(res), "what") {
		t.Errorf("without an argument: %s", text(res))
	}
	bob := w.as("bob", nil)
	res = must.Get(bob.CallTool(t.Context(), &sdk.CallToolParams{Name: "test__own"}))
	if !res.IsError || !strings.Contains(text(res), "not shared with you") {
		t.Errorf("somebody else's tool: %s", text(res))
	}
}

func TestApprovals(t *testing.T) {
	w := serve(t)
	put := func(s *sdk.ClientSession, what string) *sdk.CallToolResult {
		t.Helper()
		return must.Get(s.CallTool(t.Context(), &sdk.CallToolParams{Name: "test__put", Arguments: map[string]any{"what": what}}))
	}
	var asked *sdk.ElicitParams
	answers := map[string]any{}
	action := "accept"
	ana := w.as("ana", asking(func(p *sdk.ElicitParams) *sdk.ElicitResult {
		asked = p
		return &sdk.ElicitResult{Action: action, Content: answers}
	}))
	answers["answer"] = "allow once"
	if res := put(ana, "one"); res.IsError || text(res) != "done" || !strings.Contains(asked.Message, "one") {
		t.Errorf("%s, asked %+v", text(res), asked)
	}
	answers["answer"] = "deny"
	if res := put(ana, "two"); !res.IsError || !strings.Contains(text(res), "declined in the MCP client") {
		t.Errorf("denied: %s", text(res))
	}
	action, answers = "decline", nil
	if res := put(ana, "three"); !res.IsError {
		t.Errorf("declined: %s", text(res))
	}
	if res := put(w.as("bob", nil), "four"); !res.IsError || !strings.Contains(text(res), "elicitation") {
		t.Errorf("a client that cannot ask: %s", text(res))
	}
	secret, _ := w.key("robot", policy.RoleService)
	robot := must.Get(w.connect(secret, asking(func(*sdk.ElicitParams) *sdk.ElicitResult {
		t.Error("a service was asked")
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}
	})))
	defer robot.Close()
	if res := put(robot, "five"); !res.IsError || !strings.Contains(text(res), "services cannot approve") {
		t.Errorf("a service: %s", text(res))
	}
	if got := w.done(); !slices.Equal(got, []string{`{"what":"one"}`}) {
		t.Errorf("done: %v", got)
	}
}

// A call that is repeated under the client's own id is executed once.
func TestACallIsExecutedOnce(t *testing.T) {
	w := serve(t)
	s := w.as("ana", asking(func(*sdk.ElicitParams) *sdk.ElicitResult {
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}
	}))
	for i := range 2 {
		p := &sdk.CallToolParams{Name: "test__put", Arguments: map[string]any{"what": "it"}, Meta: sdk.Meta{"steward/call_id": "mine"}}
		res := must.Get(s.CallTool(t.Context(), p))
		if text(res) != "done" || res.Meta["steward/recorded"] != (i == 1) {
			t.Errorf("%d: %s %v", i, text(res), res.Meta)
		}
	}
	if got := w.done(); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestACallIsCancelled(t *testing.T) {
	w := serve(t)
	s := w.as("ana", nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-w.begun
		cancel()
	}()
	if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "test__wait"}); err == nil {
		t.Error("it has a result")
	}
	<-w.ended
}

// If the client cancels a call while its question is open, the answer is no.
func TestAQuestionIsWithdrawn(t *testing.T) {
	w := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	s := w.as("ana", &sdk.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		cancel()
		<-gone
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}, nil
	}})
	if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "test__put", Arguments: map[string]any{"what": "it"}}); err == nil {
		t.Error("it has a result")
	}
	for {
		changed := w.node.Effects.Changed()
		list, err := w.node.Effects.Questions(t.Context(), "ana")
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		<-changed
	}
	close(gone)
	if got := w.done(); len(got) != 0 {
		t.Errorf("done: %v", got)
	}
}

func TestAnAgentIsAsked(t *testing.T) {
	w := serve(t)
	var asked string
	s := w.as("ana", asking(func(p *sdk.ElicitParams) *sdk.ElicitResult {
		asked = p.Message
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}
	}))
	ask := func(args map[string]any) (*sdk.CallToolResult, map[string]any) {
		res := must.Get(s.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask_assistant", Arguments: args}))
		object, _ := res.StructuredContent.(map[string]any)
		return res, object
	}
	res, object := ask(map[string]any{"message": "Hello"})
	if res.IsError || text(res) != "you said: Hello" || object["answer"] != "you said: Hello" || object["agent"] != "assistant" {
		t.Fatalf("%s %v", text(res), object)
	}
	_, again := ask(map[string]any{"message": "Bye", "conversation": object["conversation_id"]})
	if again["answer"] != "you said: Bye" || again["conversation_id"] != object["conversation_id"] {
		t.Errorf("%v after %v", again, object)
	}
	if res, _ := ask(map[string]any{"message": "put milk"}); res.IsError || !strings.Contains(asked, "milk") || len(w.done()) != 1 {
		t.Errorf("%s, asked %q, done %v", text(res), asked, w.done())
	}
	if res, _ := ask(map[string]any{"message": "x", "to": "y"}); !res.IsError {
		t.Errorf("an unknown argument: %s", text(res))
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-w.begun
		cancel()
	}()
	if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "ask_assistant", Arguments: map[string]any{"message": "wait"}}); err == nil {
		t.Error("a cancelled turn has an answer")
	}
	<-w.ended
}

func TestSessionsBelongToTheirUser(t *testing.T) {
	w := serve(t)
	ana := w.as("ana", nil)
	bobs, _ := w.key("bob", policy.RoleMember)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		for _, own := range []string{ana.ID(), "nothing"} {
			r := must.Get(http.NewRequestWithContext(t.Context(), method, w.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)))
			r.Header.Set("Authorization", "Bearer "+bobs)
			r.Header.Set("Mcp-Session-Id", own)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			res := must.Get(http.DefaultClient.Do(r))
			res.Body.Close()
			if res.StatusCode != http.StatusNotFound {
				t.Errorf("%s of the session %s by bob: %s", method, own, res.Status)
			}
		}
	}
	if _, err := ana.ListTools(t.Context(), nil); err != nil {
		t.Errorf("ana's session: %v", err)
	}
}

func TestARevokedKeyEndsASession(t *testing.T) {
	w := serve(t)
	secret, key := w.key("ana", policy.RoleMember)
	s := must.Get(w.connect(secret, nil))
	defer s.Close()
	if _, err := s.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	must.Do(t, w.people.Revoke(t.Context(), identity.Local, key.ID))
	if _, err := s.ListTools(t.Context(), nil); err == nil {
		t.Error("a revoked key lists tools")
	}
	if _, err := w.connect(secret, nil); err == nil {
		t.Error("a revoked key connects")
	}
	if _, err := w.connect("", nil); err == nil {
		t.Error("nobody connects")
	}
}

// A role that was taken away counts at once, also in a session that began before.
func TestAChangedRoleEndsASession(t *testing.T) {
	w := serve(t)
	s := w.as("ana", nil)
	roles := []string{policy.RoleGuest}
	must.Get(w.people.SetUser(t.Context(), identity.Local, "ana", identity.AccountChange{Roles: &roles}))
	if _, err := s.ListTools(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "roles or groups of ana have changed") {
		t.Errorf("%v", err)
	}
}

func TestALargeRequestIsRefused(t *testing.T) {
	w := serve(t)
	secret, _ := w.key("ana", policy.RoleMember)
	for name, length := range map[string]int64{"declared": 5 << 20, "streamed": -1} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, strings.NewReader(strings.Repeat(" ", 5<<20))))
		r.ContentLength = length
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		res, err := http.DefaultClient.Do(r)
		if err != nil { // the server may close the connection before everything is sent
			continue
		}
		res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %s", name, res.Status)
		}
	}
}

func TestTheOldestSessionMakesRoom(t *testing.T) {
	w := serve(t)
	secret, _ := w.key("ana", policy.RoleMember)
	first := must.Get(w.connect(secret, nil))
	defer first.Close()
	must.Get(first.ListTools(t.Context(), nil)) // the server has seen all that Connect sends
	for range 32 {
		s := must.Get(w.connect(secret, nil))
		defer s.Close()
	}
	if _, err := first.ListTools(t.Context(), nil); err == nil {
		t.Error("the oldest session goes on")
	}
}

func TestResources(t *testing.T) {
	w := serve(t)
	updated := make(chan string, 10)
	s := w.as("ana", &sdk.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI }})
	by := tree.Caller{User: "ana", Attended: true}
	note := "cld:home.Note.shopping"
	put := func(user, body string) {
		t.Helper()
		uri := must.Get(tree.Parse(user, "", note))
		by.User = user
		must.Get(w.node.Resources().Put(t.Context(), by, tree.Put{URI: uri, Body: []byte(body)}))
	}
	if _, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: note}); err == nil {
		t.Error("a note that does not exist is read")
	}
	must.Do(t, s.Subscribe(t.Context(), &sdk.SubscribeParams{URI: note}))
	w.key("bob", policy.RoleMember)
	put("bob", `{"text":"bob's"}`)
	put("ana", `{"text":"milk"}`)
	if got := <-updated; got != note {
		t.Errorf("updated: %s", got)
	}
	read := must.Get(s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: note}))
	if len(read.Contents) != 1 || !strings.Contains(read.Contents[0].Text, "milk") || read.Contents[0].MIMEType != "application/json" {
		t.Errorf("%+v", read.Contents)
	}
	found := false
	for r, err := range s.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.HasSuffix(r.URI, "home.Note.shopping")
		if strings.Contains(r.URI, "bob") {
			t.Errorf("bob's is listed: %s", r.URI)
		}
	}
	if !found {
		t.Error("the note is not listed")
	}
	bobs := "cld:identity.User.bob/home.Note.shopping"
	if _, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: bobs}); err == nil {
		t.Error("bob's note is read by ana")
	}
	must.Do(t, s.Unsubscribe(t.Context(), &sdk.UnsubscribeParams{URI: note}))
	if list := must.Get(s.ListResourceTemplates(t.Context(), nil)); len(list.ResourceTemplates) != 3 {
		t.Errorf("%v", list.ResourceTemplates)
	}
	done := must.Get(s.Complete(t.Context(), &sdk.CompleteParams{Ref: &sdk.CompleteReference{Type: "ref/resource", URI: "cld:home.Note.{name}"},
		Argument: sdk.CompleteParamsArgument{Name: "name", Value: "sh"}}))
	if !slices.Equal(done.Completion.Values, []string{"shopping"}) {
		t.Errorf("%v", done.Completion)
	}
	select {
	case uri := <-updated:
		t.Errorf("updated again: %s", uri)
	default:
	}
}

func TestSubscriptionsAreBounded(t *testing.T) {
	w := serve(t)
	s := w.as("ana", nil)
	for i := range 101 {
		err := s.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "cld:home.Note.n" + strings.Repeat("x", i)})
		if (err == nil) != (i < 100) {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

func TestPrompts(t *testing.T) {
	w := serve(t)
	s := w.as("ana", nil)
	list := must.Get(s.ListPrompts(t.Context(), nil))
	if !slices.ContainsFunc(list.Prompts, func(p *sdk.Prompt) bool { return p.Name == "ask_assistant" }) {
		t.Errorf("%v", list.Prompts)
	}
	got := must.Get(s.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "ask_assistant", Arguments: map[string]string{"message": "Hello"}}))
	if said := got.Messages[0].Content.(*sdk.TextContent).Text; !strings.Contains(said, "ask_assistant") || !strings.HasSuffix(said, "Hello") {
		t.Error(said)
	}
	if _, err := s.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "ask_nobody"}); err == nil {
		t.Error("a prompt of nobody")
	}
	done := must.Get(s.Complete(t.Context(), &sdk.CompleteParams{Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "ask_assistant"},
		Argument: sdk.CompleteParamsArgument{Name: "message", Value: "wat"}}))
	if !slices.Equal(done.Completion.Values, []string{"Water the plants"}) {
		t.Errorf("%v", done.Completion)
	}
}
