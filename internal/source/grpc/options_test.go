package grpc

import (
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/tool"
)

const tidyProto = `syntax = "proto3";
package notes;
import "steward/options.proto";
message Note { string path = 1; }
service Notes {
  rpc Read(Note) returns (Note) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (steward.tidy) = {by: "parameters" parameters: "path"};
  }
  rpc Write(Note) returns (Note) {
    option (steward.tidy) = {by: "tools" tools: "read" parameters: "path" cascade: "list"};
    option (steward.tidy) = {by: "age" max_age: "10m"};
  }
  rpc List(Note) returns (Note) { option (steward.tidy) = {by: "tools" tools: "mail.read"}; }
}
`

// A method's option, from reflection or from .proto files, says which earlier results its calls make
// obsolete. The person's declaration replaces it, and only that may name tools of other sources.
func TestAMethodDeclaresWhatItMakesObsolete(t *testing.T) {
	srv := serve(t, describingText(t, tidyProto), serving{})
	dir := t.TempDir()
	write(t, dir, "tools/notes.proto", tidyProto)
	for how, env := range map[string]tool.Env{"reflection": {Name: "notes"}, "files": {Name: "notes", Dir: dir}} {
		s := open(t, env, "host: "+srv.address+"\nservices: [notes.Notes]")
		told := func(name string) string {
			var out []string
			for _, st := range specOf(t, s, name).Tidy {
				out = append(out, st.Description())
			}
			return strings.Join(out, "; ")
		}
		if got := told("notes.read"); got != "earlier results of its own calls with the same path" {
			t.Errorf("%s: read: %s", how, got)
		}
		if got := told("notes.write"); got != "earlier results of notes.read with the same path, and with them results of notes.list; its results that are older than 10m0s" {
			t.Errorf("%s: write: %s", how, got)
		}
		refused := announce(t, s).Refused
		if len(refused) != 1 || !fault.HasCode(refused[0], "tool_tidy_invalid") || !strings.Contains(refused[0].Error(), "mail.read") {
			t.Errorf("%s: %v", how, refused)
		}
		own := open(t, env, "host: "+srv.address+"\nservices: [notes.Notes]\ntidy: {List: [{by: tools, tools: [mail.read]}], Read: []}")
		if len(announce(t, own).Refused) != 0 || len(specOf(t, own, "notes.read").Tidy) != 0 || specOf(t, own, "notes.list").Tidy[0].Tools[0] != "mail.read" {
			t.Errorf("%s: %+v", how, announce(t, own))
		}
	}
}
