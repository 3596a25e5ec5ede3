package steward_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Data folders contain the words below, and programs read some of them from the
// API. Packages and constants may be renamed; these texts stay as they are. A new
// word is added here in the commit that first writes it, and none is ever removed
// or changed: data folders have it from then on.

// persistedTypes are the types of resources.
const persistedTypes = `
	agent.Agent agent.Run
	cluster.Piece
	common.Branch common.Conversation common.Interaction common.Mark common.Message common.Pin common.Request common.Trust
	documents.Document documents.Text
	effect.Approval effect.Grant effect.Intent effect.Question
	event.Event event.Source
	goals.Goal goals.Project
	identity.Account identity.Group identity.Key identity.Link identity.Session identity.Share identity.User
	jobs.Alarm jobs.Job jobs.Occurrence
	lease.Beat lease.Work
	llm.Calibration llm.Usage
	mail.Account mail.Mark mail.Message
	memory.Fact memory.Forgotten memory.Reading
	memory.Graph memory.Triples
	messaging.Account messaging.Chat messaging.Code messaging.Person messaging.Post messaging.Preference messaging.State messaging.Update
	plan.Plan plan.Task
	runtime.Life
	service.State
	tool.Overflow tool.Source tool.Tool
	tree.Done
	worklog.Entry`

// exampleTypes look like types, and are examples in texts for people.
const exampleTypes = `data.NAME email.Message home.Note unknown.Message`

// persistedWords are the other words of the store: the names of terms and the
// states of resources, and words inside their bodies that programs compare.
var persistedWords = map[string]string{
	"status of a goal or project": `active paused completed dropped archived`,
	"kind of a goal or project":   `goal project`,
	"type of a fact":              `fact preference person place event instruction`,
	"status of a document":        `ready refused`,
	"term": `about branch call cancelled_by children conversation effect.dead effect.intent effect.intents effect.key
		graph.call graph.o graph.p graph.po graph.s graph.source graph.sp graph.word
		group_member key_hash key_user message named opened plan plans request requests routed stands task`,
	"state of a resource": `active answered approved awaiting_approval cluster.held cluster.waiting deleted due executing lease.held lease.waiting
		open pending proposed running unknown`,
	"state of an action":       `proposed awaiting_approval approved executing done failed unknown denied cancelled expired`,
	"state of a task":          `pending running judging paused done failed skipped cancelled`,
	"validity of a message":    `active invalidated superseded archived deleted`,
	"status of a result":       `ok error denied queued accepted unavailable unknown interrupted`,
	"outcome of a run":         `answered stopped bound failed`,
	"kind of a request":        `agent task turn call`,
	"step of a task":           `acknowledged running completed error`,
	"reason of a task":         `queued retry undo resolve`,
	"decision about an agent":  `pending approved denied revoked`,
	"duration of an approval":  `conversation always`,
	"effect of a tool":         `query action`,
	"delivery of an action":    `inline deferred`,
	"role of a message":        `system user assistant tool`,
	"origin of a message":      `user alarm: steward/repeat hook:memory`,
	"role of a user":           `admin guest member service`,
	"beginning of a space":     `user: group: system`,
	"beginning of a source":    `user: service: agent:`,
	"branch of a conversation": `main`,
}

// derivedIDs are the first parts of what IDs are derived from. Steward derives them
// again, after a crash for example, and then finds what it has stored.
const derivedIDs = `alarm again ask asked calendar call cancel chat concluded contact conversation document effect event fact files files.write
	goal grant graph intent job mail mark occurrence opened plan.task post probe question regenerate resolved sender state task undo update view`

var typeLike = regexp.MustCompile(`^[a-z]+\.[A-Z][A-Za-z]+$`)

// TestPersistedNamesStay compares the texts in the code with the lists above. It
// knows neither packages nor constants, so that both can be renamed.
func TestPersistedNamesStay(t *testing.T) {
	t.Parallel()
	found, derived := literals(t, "internal", "cmd")
	types := strings.Fields(persistedTypes)
	for _, typ := range types {
		if !typeLike.MatchString(typ) || found[typ] == "" {
			t.Errorf("no code names the type %s any more, and data folders contain it", typ)
		}
	}
	known := append(types, strings.Fields(exampleTypes)...)
	for _, text := range slices.Sorted(maps.Keys(found)) {
		if typeLike.MatchString(text) && !slices.Contains(known, text) {
			t.Errorf("%s: %q looks like a type of resources. If it is one and new, add it to persistedTypes: its name is final from now on. If it is an example, add it to exampleTypes", found[text], text)
		}
	}
	for _, word := range strings.Fields(derivedIDs) {
		if derived[word] == "" {
			t.Errorf("no ID is derived from %q any more, and data folders contain such IDs", word)
		}
		delete(derived, word)
	}
	for word, at := range derived {
		t.Errorf("%s: IDs are derived from %q; if this is new, add it to derivedIDs", at, word)
	}
	for what, words := range persistedWords {
		for _, word := range strings.Fields(words) {
			if found[word] == "" {
				t.Errorf("no code says %q any more, and data folders contain it as the %s", word, what)
			}
		}
	}
}

// literals returns the texts of all string literals outside of tests below some
// folders, each with a place where it stands, and those of them that are the first
// argument of id.Derive. Import paths and struct tags are left out.
func literals(t *testing.T, roots ...string) (found, derived map[string]string) {
	t.Helper()
	found, derived = map[string]string{}, map[string]string{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ImportSpec:
					return false
				case *ast.Field:
					n.Tag = nil
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Derive" && len(n.Args) > 0 {
						if text, ok := textOf(n.Args[0]); ok {
							derived[text] = files.Position(n.Pos()).String()
						}
					}
				case *ast.BasicLit:
					if text, ok := textOf(n); ok {
						found[text] = files.Position(n.Pos()).String()
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found, derived
}

// textOf returns the text of a string literal.
func textOf(n ast.Expr) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
