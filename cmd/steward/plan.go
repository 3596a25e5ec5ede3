package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/runtime"
	"steward/internal/server/terminal"
)

func (a *app) planCommand() *cobra.Command {
	o := askFlags{plan: true}
	c := &cobra.Command{
		Use: "plan TEXT…", Short: "Have a request planned, and decide about the plan before it is carried out", GroupID: "talk", Args: cobra.MinimumNArgs(1),
		Long: "Have a request planned. The plan is shown before anything of it begins: approve it, reject it, or edit it\n" +
			"(as JSON, in the program that EDITOR names). What it then asks about is asked here, too. Without a terminal\n" +
			"the plan is printed and waits: steward approvals approves, edits or denies it.\n" +
			"steward ask --plan is the same.",
		Example: "  steward plan 'Check the weather in Graz and then set a timer for 10 minutes'",
		RunE:    func(c *cobra.Command, args []string) error { return a.ask(c.Context(), args, &o) },
	}
	a.whichFlags(c, &o.which, &o.last)
	c.Flags().StringArrayVar(&o.files, "file", nil, "attach a `FILE`: text, an image, a recording, a PDF or a Word file; - is standard input")
	return c
}

// errPlanWaits means that a plan was shown to nobody who could answer.
var errPlanWaits = errors.New("the plan waits for an answer")

// decider puts the questions of a planned request to the person at the terminal.
type decider struct {
	*app
	s     *session
	in    *bufio.Reader
	asked map[string]bool // by the hash of what was shown
}

// frame asks about a call that waits for a person. Without a terminal it shows the
// question and returns errPlanWaits.
func (d *decider) frame(ctx context.Context, f *client.Frame) error {
	if f.Type != client.FrameCall || f.Approval == nil || f.Status != client.CallAwaiting || d.asked[f.Approval.Hash] {
		return nil
	}
	d.asked[f.Approval.Hash] = true
	q, err := d.s.question(ctx, f.Approval.ID, nil)
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
		return nil // it was answered elsewhere
	} else if err != nil {
		return err
	}
	if !isTerminal(d.stdin) {
		if err := tell(d.app, q, nil, func(effect.Question) string { return terminal.QuestionShown(&q, d.width(), time.Now(), true, "") }); err != nil {
			return err
		}
		then := ""
		if d.s.alone() {
			then = "; it goes on when Steward runs: steward serve, or steward chat"
		}
		d.note("it waits for you: steward approvals approve %s, or deny%s", q.Short[:8], then)
		return errPlanWaits
	}
	fmt.Fprintf(d.stderr, "%s\n", terminal.QuestionShown(&q, d.width(), time.Now(), false, "d shows"))
	answer := client.Answer{Hash: q.Hash}
	for answered := false; !answered; {
		fmt.Fprint(d.stderr, "Carry it out? [y]es, [n]o, [d]etails, [e]dit: ")
		line, err := d.in.ReadString('\n')
		if err != nil {
			return err
		}
		switch answered = true; strings.ToLower(strings.TrimSpace(line)) {
		case "y":
			answer.Approve = true
		case "n":
		case "d":
			fmt.Fprintf(d.stderr, "%s\n", terminal.QuestionShown(&q, d.width(), time.Now(), true, ""))
			answered = false
		case "e":
			if answer.Args, err = d.edited(ctx, string(q.Args)); err != nil {
				d.note("%s", err)
			}
			answer.Approve, answered = true, err == nil
		default:
			answered = false
		}
	}
	err = d.s.AnswerApproval(ctx, q.ID, answer)
	if answer.Args != nil && fault.Is(err, fault.Invalid) { // ask again about what stands there
		d.note("%s", err)
		d.asked[f.Approval.Hash] = false
		return d.frame(ctx, f)
	}
	return err
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
	c := exec.CommandContext(ctx, "/bin/sh", "-c", cmp.Or(d.getenv("VISUAL"), d.getenv("EDITOR"), "vi")+` "$1"`, "sh", file)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("the editor ended with an error, so nothing was changed: %w", err)
	}
	text, err := os.ReadFile(file)
	if err == nil && !json.Valid(text) {
		err = errors.New("this is no JSON, so nothing was changed")
	}
	return text, err
}

// planned turns a message into one whose plan the person decides about.
func planned(m *client.Message) {
	m.Agent, m.Plan, m.Unattended = runtime.PlannerAgent, true, false
}
