package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"steward/client"
	"steward/internal/app"
	"steward/internal/effect"
	"steward/internal/fault"
	strictly "steward/internal/strict"
	"steward/internal/terminal"
)

// decider puts the questions of a request to the person at the terminal.
type decider struct {
	*program
	s     *session
	in    *bufio.Reader
	asks  bool            // a person is at the terminal
	asked map[string]bool // by the hash of what was shown
}

// attended reports whether a person can be asked: standard input and error are terminals.
func (a *program) attended() bool { return app.IsTerminal(a.stdin) && app.IsTerminal(a.Stderr) }

// frame asks about a call that waits for a person. If nobody can be asked, it shows the
// question and returns errPlanWaits.
func (d *decider) frame(ctx context.Context, f *client.Frame) error {
	if f.Type != client.FrameCall || f.Approval == nil || f.Status != client.CallAwaiting || d.asked[f.Approval.Hash] {
		return nil
	}
	d.asked[f.Approval.Hash] = true
	q, err := d.s.question(ctx, f.Approval.ID, nil)
	if answeredElsewhere(err) {
		return nil
	} else if err != nil {
		return err
	}
	if !d.asks {
		return d.waits(&q)
	}
	if !q.Yours {
		d.Note("%s waits for %s", plainLine(q.Tool), cmp.Or(q.Approvers, "somebody else"))
		return nil
	}
	fmt.Fprintf(d.Stderr, "%s\n", d.shown(&q, false))
	for {
		v, err := d.answer(ctx, &q)
		if err != nil {
			return err
		}
		err = d.s.AnswerApproval(ctx, q.ID, v)
		switch {
		case answeredElsewhere(err):
			d.Note("it was answered elsewhere")
			return nil
		case err != nil && (v.Args != nil || v.Standing != "") && fault.Is(err, fault.Invalid):
			d.Note("%s", err) // ask again with the arguments as they are
		default:
			return err
		}
	}
}

// answeredElsewhere reports whether a question is open no more.
func answeredElsewhere(err error) bool {
	return fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound)
}

// shown describes a question, with all details or without.
func (d *decider) shown(q *effect.Question, whole bool) string {
	return terminal.QuestionShown(q, d.width(), time.Now(), whole, "d shows")
}

// ofPlan reports whether a question is about a plan, or asked by one.
func ofPlan(tool string) bool { return strings.HasPrefix(tool, "plan.") }

// waits shows a question that nobody can be asked, and says how to answer it later.
func (d *decider) waits(q *effect.Question) error {
	if err := tell(d.program, *q, nil, func(effect.Question) string { return d.shown(q, true) }); err != nil {
		return err
	}
	then := ""
	if d.s.alone() {
		then = "; it continues when Steward runs: steward serve, or steward chat"
	}
	d.Note("it waits for you: steward approvals approve %s, or deny%s", q.Short[:8], then)
	return errPlanWaits
}

// answer asks until there is an answer. A standing approval is shown before it is given.
func (d *decider) answer(ctx context.Context, q *effect.Question) (client.Answer, error) {
	keys := "Allow it? [y]es, [n]o, this [c]onversation, always ([p]), [e]dit, [d]etails: "
	switch {
	case ofPlan(q.Tool):
		keys = "Carry it out? [y]es, [n]o, [d]etails, [e]dit: "
	case q.NoGrant != "":
		keys = "Allow it? [y]es, [n]o, [e]dit, [d]etails: "
	}
	for {
		v := client.Answer{Hash: q.Hash, Approve: true}
		fmt.Fprint(d.Stderr, keys)
		line, err := d.in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(d.Stderr)
			return v, fault.New(fault.Cancelled, "approval_open", "the question was not answered, and stays open").
				WithHint("steward approvals approve %s, or deny", q.Short[:8])
		} else if err != nil {
			return v, err
		}
		switch word := strings.ToLower(strings.TrimSpace(line)); {
		case word == "y" || word == "yes":
			return v, nil
		case word == "n" || word == "no":
			v.Approve = false
			return v, nil
		case word == "e":
			if v.Args, err = d.edited(ctx, string(q.Args)); err == nil {
				return v, nil
			}
			d.Note("%s", err)
		case word == "d":
			fmt.Fprintf(d.Stderr, "%s\n", d.shown(q, true))
		case q.NoGrant == "" && !ofPlan(q.Tool) && (word == "c" || word == "p"):
			v.Standing = string(effect.InConversation)
			if word == "p" {
				v.Standing = string(effect.Always)
			}
			p, err := d.chooseWidth(d.in, q)
			if err != nil {
				return v, err
			}
			wider, err := d.s.question(ctx, q.ID, p)
			if err != nil {
				return v, err
			}
			v.Hash, v.Pattern = wider.Hash, wider.Pattern
			if ok, err := d.confirm(d.in, "%sAllow that?", termsOf(&wider, v)); err != nil || ok {
				return v, err
			}
		}
	}
}

// edited returns arguments as the person changed them in an editor.
func (d *decider) edited(ctx context.Context, args string) (json.RawMessage, error) {
	dir, err := os.MkdirTemp("", "steward-plan")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "plan.json")
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(args), "", "  "); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, "/bin/sh", "-c", cmp.Or(d.Getenv("VISUAL"), d.Getenv("EDITOR"), "vi")+` "$1"`, "sh", file)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("the editor ended with an error, so nothing was changed: %w", err)
	}
	text, err := os.ReadFile(file)
	if text = strictly.Unmarked(text); err == nil && !json.Valid(text) {
		err = errors.New("this is not valid JSON, so nothing was changed")
	}
	return text, err
}
