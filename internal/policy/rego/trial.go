package rego

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"steward/internal/fault"
	"steward/internal/policy"
)

// maxPolicyText bounds a file that is tried or written, in bytes.
const maxPolicyText = 256 << 10

var ownFile = regexp.MustCompile(`^[A-Za-z0-9_-]{1,60}\.rego$`)

// Trial compares the policies in force with those in which one file of the user's is another.
type Trial struct {
	now, then *program
	timeout   time.Duration
}

// Try compiles the policies with a file of the user's replaced by text, or added. Nothing is written or put in force.
// Error codes: policy_file_invalid, policy_invalid, policy_unreadable.
func (j *Authorizer) Try(name, text string) (*Trial, error) {
	if err := j.own(name, text); err != nil {
		return nil, err
	}
	src, err := readSources(j.opt.Dir)
	if err != nil {
		return nil, err
	}
	if _, there := src.text[name]; there {
		src.text[name] = text
	} else {
		src.add(name, []byte(text))
		slices.Sort(src.names[slices.IndexFunc(src.names, func(s string) bool { return s == name || filepath.Dir(s) == "." }):])
	}
	then, err := compile(src, j.opt.Settings)
	return &Trial{j.now.Load(), then, j.opt.Timeout}, err
}

func (j *Authorizer) own(name, text string) error {
	switch {
	case j.opt.Dir == "":
		return fault.New(fault.Unsupported, "policy_file_invalid", "this Steward has no folder of policies")
	case !ownFile.MatchString(name) || strings.HasSuffix(name, "_test.rego"):
		return fault.New(fault.Invalid, "policy_file_invalid", "%.80q cannot be the name of a file of policies", name).WithHint("write house.rego")
	case len(text) > maxPolicyText:
		return fault.New(fault.TooLarge, "policy_file_invalid", "the file is larger than %d KB", maxPolicyText>>10)
	}
	return nil
}

// Decide decides about an input, as Explained has it, by the policies in force and by those of the trial.
func (t *Trial) Decide(at policy.Point, input json.RawMessage) (now, then policy.Decision, err error) {
	var doc any
	if err := json.Unmarshal(input, &doc); err != nil {
		return now, then, err
	}
	value, err := ast.InterfaceToValue(doc)
	if err != nil {
		return now, then, err
	}
	decide := func(p *program) (policy.Decision, error) {
		stop := topdown.NewCancel()
		defer time.AfterFunc(t.timeout, stop.Cancel).Stop()
		return p.run(p.points[at], ast.NewTerm(value), stop)
	}
	if now, err = decide(t.now); err == nil {
		then, err = decide(t.then)
	}
	return now, then, err
}

// Has reports whether the user has a file of policies, in force or not.
func (j *Authorizer) Has(name string) bool {
	_, err := os.Lstat(filepath.Join(j.opt.Dir, filepath.Base(name)))
	return err == nil
}

// Write writes a file of the user's, if the policies compile with it. The watch over the folder puts it in force.
// Codes as for Try, and policy_unwritable.
func (j *Authorizer) Write(_ context.Context, name, text string) error {
	if _, err := j.Try(name, text); err != nil {
		return err
	}
	if err := os.MkdirAll(j.opt.Dir, 0o700); err != nil {
		return unwritable(err)
	}
	return write(filepath.Join(j.opt.Dir, name), text)
}
