package tree

import (
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/resource"
)

// owners maps the first word of the types that a part of Steward owns (see
// resource.Owned) to a hint on how to change such resources.
var owners = map[string]string{
	"agent":    "agents are managed with steward agents",
	"audit":    "the audit trail is written by Steward alone; steward audit verify checks it",
	"common":   "conversations are changed with steward chat, steward conversations and steward messages",
	"effect":   "intents and approvals are decided with steward intents",
	"event":    "events are published with steward events publish",
	"identity": "people are managed with steward users, steward groups, steward keys and PUT /api/v1/profile",
	"llm":      "what models have used is recorded by Steward alone",
	"memory":   "memories are kept by the agents",
	"plan":     "tasks are created by planning: ask for the work in a conversation",
	"policy":   "policies are files, managed with steward policy",
	"secret":   "secrets are managed with steward secrets",
	"service":  "an agent changes its state only through its services",
	"tool":     "tools come with agents and sources: steward agents",
	"tree":     "Steward uses it to put resources exactly once",
	"worklog":  "only agents' work is recorded here; steward log shows it",
}

func word(typ string) string {
	w, _, _ := strings.Cut(typ, ".")
	return w
}

// Limits of a URI.
const (
	maxSteps = 32
	maxURI   = 2048 // bytes of text
)

// Parse parses a URI as a person writes it. If it begins with a type that belongs
// to the users, it is relative to the place of a space: for user:ana,
// cld:home.Note.a means cld:identity.User.ana/home.Note.a. The empty space is the
// user's own. Errors: uri_invalid, with Details["position"], and space_invalid.
func Parse(user string, space resource.Space, text string) (resource.URI, error) {
	uri, err := resource.Parse(text)
	if err != nil || uri.Zero() {
		return uri, err
	}
	steps := uri.Elements()
	if len(steps) >= maxSteps || len(text) > maxURI {
		return resource.URI{}, limitError(text, steps)
	}
	if space == "" {
		space = resource.UserSpace(user)
	}
	if resource.IsShort(uri) && resource.Place(space).Zero() {
		return uri, fault.New(fault.Invalid, "space_invalid", "the space %.100q does not hold resources", string(space)).
			WithHint("use user:NAME or group:NAME")
	}
	return resource.Expand(space, uri), nil
}

// limitError returns an error with the position at which a URI exceeds a limit.
func limitError(text string, steps []resource.Element) error {
	at := len(resource.Scheme)
	for i, e := range steps {
		if i == maxSteps-1 || at > maxURI {
			break
		}
		at += len(e.Type) + len(e.ID) + 2
	}
	at = min(at, maxURI, len(text))
	return fault.New(fault.Invalid, "uri_invalid", "the URI is too long: at byte %d: it has at most %d steps and %d bytes", at, maxSteps-1, maxURI).
		Detail("position", at).WithHint("use fewer steps or shorter names")
}

// CheckSpace checks the name of a space (space_invalid).
func CheckSpace(space resource.Space) error {
	kind, name, ok := strings.Cut(string(space), ":")
	if space == resource.System || ok && name != "" && (kind == "user" || kind == "group") && !strings.ContainsAny(name, "/\x00") {
		return nil
	}
	return fault.New(fault.Invalid, "space_invalid", "invalid space %.100q", string(space)).
		WithHint("use user:NAME, group:NAME or system")
}

// writable returns the space of a resource that the caller wants to put or delete.
// Errors: resource_owned, space_denied.
func (c *call) writable(uri resource.URI, want resource.Space) (resource.Space, error) {
	if uri.Zero() || resource.Owned(uri.Type()) {
		return "", ownedError(uri)
	}
	space, ok := resource.SpaceOf(uri)
	if !ok {
		return "", fault.New(fault.Denied, "resource_owned", "only Steward writes below %s", uri.Parent()).
			WithHint("put it below your own place, as %s.%s", resource.Place(resource.UserSpace(c.User)).String()+"/"+uri.Type(), uri.ID())
	}
	if want != "" && want != space {
		return "", fault.New(fault.Invalid, "space_invalid", "%s belongs to the space %s, not to %.100q", uri, space, string(want)).
			WithHint("leave the space out, or begin the URI with the type of the resource")
	}
	if mine := c.spaces(); space == resource.System || !slices.Contains(mine, space) {
		return "", fault.New(fault.Denied, "space_denied", "%s may not change the space %s", c.User, space).
			WithHint("use your own space, or that of a group that you are in")
	}
	for _, e := range uri.Elements()[1:] {
		if resource.Owned(e.Type) {
			return "", ownedError(uri)
		}
	}
	return space, nil
}

func ownedError(uri resource.URI) error {
	remedy := "use types of your own, such as home.Note"
	for _, e := range uri.Elements() {
		if use, ok := owners[word(e.Type)]; ok {
			remedy = use
		}
	}
	return fault.New(fault.Denied, "resource_owned", "%s can only be read here", uri).WithHint("%s", remedy)
}
