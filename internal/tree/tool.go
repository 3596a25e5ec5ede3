package tree

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/tool"
)

// The names of the tools by which agents use resources.
const (
	ToolGet    = "resource.get"
	ToolList   = "resource.list"
	ToolPut    = "resource.put"
	ToolShare  = "resource.share"
	ToolDelete = "resource.delete"
)

type getArgs struct {
	URI     string `json:"uri" minlen:"5" maxlen:"2048" jsonschema:"which resource: a URI such as cld:home.Note.shopping"`
	Version uint64 `json:"version,omitzero" jsonschema:"an earlier version of it"`
	Parents bool   `json:"parents,omitzero" jsonschema:"also show the resources above it" default:"false"`
}

type listArgs struct {
	Under  string `json:"under,omitzero" maxlen:"2048" jsonschema:"only what lies at or below this URI"`
	Type   string `json:"type,omitzero" maxlen:"200" jsonschema:"only resources of this type, such as home.Note or tool.Tool"`
	Space  string `json:"space,omitzero" maxlen:"100" jsonschema:"only those of an owner: user:NAME, group:NAME or system"`
	State  string `json:"state,omitzero" maxlen:"64" jsonschema:"only those in this state"`
	Since  string `json:"since,omitzero" maxlen:"40" jsonschema:"only what was changed since this time (RFC 3339); the last changed first"`
	Limit  int    `json:"limit,omitzero" min:"1" max:"100" default:"20" jsonschema:"how many at most"`
	Cursor string `json:"cursor,omitzero" maxlen:"4096" jsonschema:"where to go on, from an earlier answer to the same call"`
}

type putArgs struct {
	URI     string `json:"uri" minlen:"5" maxlen:"2048" jsonschema:"where to keep it: a URI such as cld:home.Note.shopping, of a type and a name of your choice"`
	Body    object `json:"body" jsonschema:"what to keep. The texts purpose, instructions, applicability and evaluation, if there, describe it"`
	State   string `json:"state,omitzero" maxlen:"64" jsonschema:"a word for how far it is, such as open"`
	Version uint64 `json:"version,omitzero" jsonschema:"only if it is at this version, as you have read it"`
	Create  bool   `json:"create,omitzero" jsonschema:"only if it is not there yet" default:"false"`
}

type shareArgs struct {
	Group string `json:"group" minlen:"1" maxlen:"64" jsonschema:"the group whose members are to have it"`
	putArgs
}

type deleteArgs struct {
	URI     string `json:"uri" minlen:"5" maxlen:"2048" jsonschema:"which resource"`
	Version uint64 `json:"version,omitzero" jsonschema:"only if it is at this version, as you have read it"`
}

// object is a JSON object in canonical form.
type object []byte

// JSONSchema returns the schema of any object.
func (object) JSONSchema() string { return `{"type":"object"}` }

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(b []byte) error {
	*o = append((*o)[:0], b...)
	return (*jsontext.Value)(o).Canonicalize()
}

// Tools returns the tools through which agents use the service on behalf of their
// users. Results are private, and also untrusted unless the user wrote them.
func (s *Service) Tools() ([]tool.Tool, error) {
	var out []tool.Tool
	for _, make := range []func() (tool.Tool, error){s.getTool, s.listTool, s.putTool, s.shareTool, s.deleteTool} {
		t, err := make()
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// callerOf returns the caller of a tool. In a conversation the agent is the actor,
// even if the user asked to retry or undo the call, since the text is not the
// user's own.
func callerOf(ctx context.Context, in tool.Invocation) Caller {
	rc, _ := request.From(ctx)
	actor := rc.Actor
	if actor == "" || actor == in.User && !in.Conversation.Zero() {
		actor = "agent:" + cmp.Or(in.Agent, "assistant")
	}
	return Caller{User: in.User, Agent: in.Agent, Lineage: rc.Lineage, Attended: rc.Attended, Request: in.Request, Actor: actor}
}

func (s *Service) getTool() (tool.Tool, error) {
	return tool.New(tool.Spec{
		Name: ToolGet, Effect: tool.Query, Version: "1", Yields: message.Private, Reach: tool.ReachHere,
		Description: "Reads a resource: a note or another thing that was kept, an agent, a tool with its schema, a conversation, a task. " +
			"Give its URI, as resource.list returns it.",
		Tidy: []tool.Strategy{{Kind: tool.ByParameters, Parameters: []string{"uri", "version", "parents"}}},
		Log:  tool.LogSpec{Summary: "Read {uri}", Parameters: []string{"uri", "version"}},
	}, func(ctx context.Context, in tool.Invocation, args getArgs) (tool.Result, error) {
		by := callerOf(ctx, in)
		uri, err := Parse(in.User, "", args.URI)
		if err != nil {
			return tool.Result{}, err
		}
		var r Resource
		if args.Version > 0 {
			r, err = s.Version(ctx, by, uri, args.Version)
		} else {
			r, err = s.Get(ctx, by, uri)
		}
		if err != nil || !args.Parents {
			return resultOf(r, labelsOf(in.User, r), err)
		}
		above, err := s.Parents(ctx, by, uri)
		labels := labelsOf(in.User, r) | message.Untrusted
		for _, x := range above {
			labels |= labelsOf(in.User, x)
		}
		return resultOf(struct {
			Resource Resource   `json:"resource"`
			Parents  []Resource `json:"parents"`
		}{r, above}, labels, err)
	})
}

func (s *Service) listTool() (tool.Tool, error) {
	return tool.New(tool.Spec{
		Name: ToolList, Effect: tool.Query, Version: "1", Yields: message.Private, Reach: tool.ReachHere,
		Description: "Lists resources with what describes them, not what is in them: notes and other things that were kept, " +
			"agents, tools, conversations, tasks. Restrict the list by a place, a type, an owner, a state or a time.",
		Tidy: []tool.Strategy{{Kind: tool.ByParameters, Parameters: []string{"under", "type", "space", "state", "since", "limit", "cursor"}}},
		Log:  tool.LogSpec{Summary: "List resources {under|} {type|}"},
	}, func(ctx context.Context, in tool.Invocation, args listArgs) (tool.Result, error) {
		q := Query{Type: args.Type, Space: resource.Space(args.Space), State: args.State, After: args.Cursor, Limit: cmp.Or(args.Limit, 20), Actors: true}
		var err error
		if args.Under != "" {
			if q.Under, err = Parse(in.User, q.Space, args.Under); err != nil {
				return tool.Result{}, err
			}
		}
		if args.Since != "" {
			if q.Since, err = time.Parse(time.RFC3339, args.Since); err != nil {
				return tool.Result{}, fault.New(fault.Invalid, "time_invalid", "invalid time %q", args.Since).WithHint("use a time such as 2030-01-31T08:00:00Z")
			}
		}
		page, err := s.List(ctx, callerOf(ctx, in), q)
		labels := message.Private
		for _, r := range page.Items {
			labels |= labelsOf(in.User, r)
		}
		return resultOf(struct {
			Resources []Resource `json:"resources"`
			Cursor    string     `json:"cursor,omitzero"`
		}{page.Items, page.Next}, labels, err)
	})
}

// labelsOf returns the labels of a resource that is read. Text that the user wrote
// is trusted; anything else may contain text from other people.
func labelsOf(user string, r Resource) message.Labels {
	if r.Actor == user && !resource.Owned(r.URI.Type()) {
		return message.Private
	}
	if resource.Owned(r.URI.Type()) && hasSecretLabel(r.Body) {
		return message.Private | message.Untrusted | message.Secret
	}
	return message.Private | message.Untrusted
}

// hasSecretLabel reports whether anything in a body that Steward has written has the
// label secret: in a member "labels", by names or as bits. Text after the first
// value, as in a long result, has that value's labels.
func hasSecretLabel(body []byte) bool {
	var v any
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&v); err != nil {
		return false // everything that has labels is JSON
	}
	return hasSecret(v)
}

func hasSecret(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, hasSecret)
	case map[string]any:
		switch l := v["labels"].(type) {
		case []any:
			if slices.Contains(l, any("secret")) {
				return true
			}
		case float64:
			if message.Labels(l).Has(message.Secret) {
				return true
			}
		}
		for _, x := range v {
			if hasSecret(x) {
				return true
			}
		}
	}
	return false
}

func resultOf(v any, labels message.Labels, err error) (tool.Result, error) {
	if err != nil {
		return tool.Result{Labels: labels}, err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return tool.Result{Labels: labels}, err
	}
	return tool.Result{Content: []message.Block{&message.Text{Text: string(b)}}, Labels: labels}, nil
}

func (s *Service) putTool() (tool.Tool, error) {
	t, err := tool.New(tool.Spec{
		Name: ToolPut, Effect: tool.Action, Version: "1", Yields: message.Private, Reach: tool.ReachHere, Dedupes: true,
		Description: "Stores something for the user as a resource, or replaces it with a new version. Earlier versions remain.",
		Log:         tool.LogSpec{Summary: "Keep {uri}", Does: "keeps something in Steward", Parameters: []string{"uri", "state"}, Impact: []string{"uri"}},
		Widths:      []tool.Width{{Name: "keep anything as {uri}", Any: []string{"body", "state", "version"}}},
	}, func(ctx context.Context, in tool.Invocation, args putArgs) (string, error) {
		return s.put(ctx, in, resource.UserSpace(in.User), args)
	})
	return action{t, s}, err
}

func (s *Service) shareTool() (tool.Tool, error) {
	t, err := tool.New(tool.Spec{
		Name: ToolShare, Effect: tool.Action, Version: "1", Yields: message.Private, Reach: tool.ReachOut, Targets: []string{"group"}, Dedupes: true,
		Description: "Stores something as a resource that all members of a group of the user can read and change.",
		Log:         tool.LogSpec{Summary: "Share {uri} with {group}", Does: "shows something to the members of a group", Parameters: []string{"uri", "group", "state"}, Impact: []string{"group", "uri"}},
		Widths:      []tool.Width{{Name: "share anything as {uri} with {group}", Any: []string{"body", "state", "version"}}},
	}, func(ctx context.Context, in tool.Invocation, args shareArgs) (string, error) {
		return s.put(ctx, in, resource.GroupSpace(args.Group), args.putArgs)
	})
	return action{t, s}, err
}

func (s *Service) put(ctx context.Context, in tool.Invocation, space resource.Space, args putArgs) (string, error) {
	uri, err := Parse(in.User, space, args.URI)
	if err != nil {
		return "", err
	}
	r, err := s.Put(ctx, callerOf(ctx, in), Put{URI: uri, Space: space, Body: args.Body, State: args.State, Version: args.Version, Create: args.Create, key: in.Key})
	if err != nil {
		return "", err
	}
	return kept(r.URI, r.Version), nil
}

func kept(uri resource.URI, version uint64) string {
	return fmt.Sprintf("Kept as %s, version %d.", uri, version)
}

func (s *Service) deleteTool() (tool.Tool, error) {
	t, err := tool.New(tool.Spec{
		Name: ToolDelete, Effect: tool.Action, Version: "1", Yields: message.Private, Reach: tool.ReachHere, Dedupes: true,
		Description: "Deletes a resource of the user, or of a group of the user. Its earlier versions can be restored.",
		Log:         tool.LogSpec{Summary: "Delete {uri}", Does: "deletes something in Steward", Impact: []string{"uri"}},
	}, func(ctx context.Context, in tool.Invocation, args deleteArgs) (string, error) {
		uri, err := Parse(in.User, "", args.URI)
		if err != nil {
			return "", err
		}
		if err := s.Delete(ctx, callerOf(ctx, in), Removal{URI: uri, Version: args.Version, key: in.Key}); err != nil {
			return "", err
		}
		return deleted(uri), nil
	})
	return action{t, s}, err
}

func deleted(uri resource.URI) string { return fmt.Sprintf("Deleted %s.", uri) }

// action is a tool that changes something. Its idempotency key tells whether it
// was done. An action can be undone.
type action struct {
	tool.Tool
	s *Service
}

// Check implements tool.Checker.
func (a action) Check(args []byte) error { return a.Tool.(tool.Checker).Check(args) }

// space returns the space that a call writes.
func (a action) space(in tool.Invocation) (resource.Space, error) {
	var args struct{ URI, Group string }
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return "", fault.New(fault.Invalid, "args_invalid", "the arguments cannot be read: %w", err)
	}
	space := resource.UserSpace(in.User)
	if args.Group != "" {
		space = resource.GroupSpace(args.Group)
	}
	uri, err := Parse(in.User, space, args.URI)
	if err != nil || uri.Zero() {
		return space, err
	}
	if sp, ok := resource.SpaceOf(uri); ok {
		space = sp
	}
	return space, nil
}

// Settle implements tool.Settler.
func (a action) Settle(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	space, err := a.space(in)
	if err != nil {
		return false, tool.Result{}, err
	}
	e, done, err := a.s.settled(ctx, callerOf(ctx, in), space, in.Key)
	switch {
	case err != nil || !done:
		return false, tool.Result{}, err
	case e.Op != resource.OpPut:
		return true, tool.Text(deleted(e.URI)), nil
	}
	return true, tool.Text(kept(e.URI, e.Version)), nil
}

// Undo implements tool.Undoer.
func (a action) Undo(ctx context.Context, in tool.Invocation, _ tool.Result) (tool.Result, error) {
	space, err := a.space(in)
	if err != nil {
		return tool.Result{}, err
	}
	uri, err := a.s.undo(ctx, callerOf(ctx, in), space, in.Key)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Text(strings.TrimSpace(fmt.Sprintf("%s is again as it was before.", uri))), nil
}
