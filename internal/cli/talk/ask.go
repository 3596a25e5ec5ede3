package talk

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/activity"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/settings"
	"steward/internal/terminal"
)

// askFlags are the flags of ask and plan.
type askFlags struct {
	which            string
	last, wait, plan bool
	files            []string
}

func (a *program) askCommand() *cobra.Command {
	var o askFlags
	c := &cobra.Command{
		Use: "ask [TEXT…]", Short: "Ask one question and print the answer", GroupID: "talk", Args: cobra.ArbitraryArgs,
		Long: "Ask one question. The answer streams to standard output, progress goes to standard error.\n" +
			"TEXT is your own words. Piped input and each --file (text, image, recording, PDF or Word file,\n" +
			"10 MB in all) are attached: they count as private and possibly written by others, and are marked\n" +
			"for the model as content, not instructions. What the model cannot read is turned into text. A lone - as\n" +
			"TEXT means that standard input has your own words.\n" +
			"A pipe that sends nothing for 3 seconds is ignored, unless --file - is given.\n\n" +
			"What needs your approval is asked about here. Without a terminal (standard input and error) it is\n" +
			"denied. The command does not wait for background work unless --wait is\n" +
			"given; steward requests lists that work.\n\n" +
			"Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 answered but cut short by a limit,\n" +
			"130 interrupted.",
		Example: "  steward ask 'What is 12.5 times 8?'\n" +
			"  git diff | steward ask --model anthropic/claude-sonnet-5 'Write a commit message for this'\n" +
			"  steward ask --file invoice.pdf --file terms.txt 'Does the invoice comply with the terms?'\n" +
			"  steward ask --continue 'And in French?'",
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c.Context(), args, &o)
		},
	}
	a.conversationFlags(c, &o.which, &o.last)
	a.agentFlag(c)
	c.Flags().StringArrayVar(&o.files, "file", nil, "attach a `FILE`: text, an image, a recording, a PDF or a Word file; - is standard input")
	c.Flags().BoolVar(&o.wait, "wait", false, "wait for background work, and print its results")
	c.Flags().BoolVar(&o.plan, "plan", false, "have the request planned, and decide about the plan before it is carried out")
	c.MarkFlagsMutuallyExclusive("plan", "agent")
	return c
}

// answer is the output of ask --json.
type answer struct {
	Conversation string            `json:"conversation_id"`
	Message      string            `json:"message_id"`
	Answer       string            `json:"answer"`
	Model        string            `json:"model"`
	Stop         string            `json:"stop"`
	DurationMS   int64             `json:"duration_ms"`
	Usage        client.Usage      `json:"usage"`
	Tools        []toolUse         `json:"tools"`
	Citations    []client.Citation `json:"citations,omitempty"`
	Later        []string          `json:"later,omitzero"` // with --wait: the answers to results that came later

	cursor string // after the last reported frame
	last   string // the last reported message
}

type toolUse struct {
	Name   string `json:"name"`
	Args   string `json:"args"`
	Status string `json:"status"`
	Result string `json:"result"`
	// Denied are the tools that were denied to an agent that the call invoked.
	Denied []string `json:"denied,omitempty"`
}

func (a *program) ask(ctx context.Context, args []string, o *askFlags) error {
	content, err := a.question(ctx, args, o.files)
	if err != nil {
		return err
	}
	set, err := a.Settings()
	if err != nil {
		return err
	}
	if o.last {
		o.which = "last"
	}
	s, err := a.Connect(ctx, set, command.NeedNode, a.PlainLogger(set))
	if err != nil {
		return err
	}
	if size := sizeOf(content); size > terminal.Long {
		a.Note("steward: %s", terminal.Weight(size, a.costOf(s), a.Model))
	}
	conv, err := s.ResolveConversation(ctx, o.which)
	if err == nil {
		m := client.Message{Conversation: conv, Model: a.Model, Agent: a.agent, Content: content, Unattended: !a.attended()}
		if o.plan {
			planned(&m)
		}
		err = a.askOver(ctx, s, m, o.wait)
	}
	return errors.Join(err, s.End())
}

// askOver sends a message and prints the answer.
func (a *program) askOver(ctx context.Context, s *command.Session, m client.Message, wait bool) error {
	w := &terminal.Writer{Out: a.Stdout, Notes: app.Wrapping{App: &a.App}, Whole: !app.IsTerminal(a.Stdout), Width: a.Width()}
	if a.Quiet {
		w.Notes = io.Discard
	}
	if a.JSON {
		w.Out = io.Discard
	}
	var out answer
	d := &decider{program: a, s: s, in: bufio.NewReader(a.Stdin), asks: !m.Unattended && (!m.Plan || a.attended()), asked: map[string]bool{}}
	each := func(ctx context.Context, f client.Frame) error {
		out.note(f)
		if err := w.Frame(f); err != nil || m.Unattended {
			return err
		}
		return d.frame(ctx, &f)
	}
	acc, err := terminal.Follow(ctx, s.Client, m, func(f client.Frame) error { return each(ctx, f) })
	if errors.Is(err, errPlanWaits) {
		return w.Close()
	}
	if err == nil && len(out.Tools) > 0 {
		err = a.background(ctx, s, acc, &out, w, wait, each)
	}
	if err != nil {
		return errors.Join(err, w.Close(), a.abandon(ctx, s, acc))
	}
	out.Conversation = acc.Conversation
	if a.JSON {
		err = a.PrintJSON(out)
	} else if err = w.Close(); err == nil {
		a.Note("conversation %s", acc.Conversation)
	}
	if say := terminal.HiddenNote(acc.Hidden); say != "" {
		a.Note("%s", say)
	}
	if err == nil && (w.Stop == message.StopBound || w.Stop == message.StopLength) {
		return command.ExitCode(command.ExitBound)
	}
	return err
}

// stopTimeout is how long an interrupted ask waits for its turn to stop. After that the
// turn is suspended.
const stopTimeout = 2 * time.Second

// abandon stops the turn when the user interrupts it, so that it does not resume at the
// next start.
func (a *program) abandon(ctx context.Context, s *command.Session, acc client.Accepted) error {
	if ctx.Err() == nil || acc.Conversation == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return s.Stop(ctx, acc.Conversation)
}

// note records an update of the report.
func (o *answer) note(f client.Frame) {
	o.cursor = f.Cursor
	switch f.Type {
	case client.FrameOpened, client.FrameUser:
		o.last = f.MessageID
	case client.FrameResult:
		o.last = f.MessageID
		o.Tools = append(o.Tools, toolUse{f.Name, f.Arguments(), f.Status, f.Result, f.Denied})
	case client.FrameComplete:
		o.last = f.MessageID
		if o.Message != "" {
			o.Later = append(o.Later, f.Content.Text())
			return
		}
		o.Message, o.Answer, o.Model, o.Stop = f.MessageID, f.Content.Text(), f.Model, f.Stop
		o.DurationMS, o.Usage, o.Citations, o.Tools = f.DurationMS, f.Usage, f.Citations, command.OrEmpty(o.Tools)
	}
}

// backgroundCalls returns the background calls below a request.
func backgroundCalls(v *client.Request) (calls []*client.Request) {
	if v.Kind == activity.RequestTask {
		calls = append(calls, v)
	}
	for i := range v.Below {
		calls = append(calls, backgroundCalls(&v.Below[i])...)
	}
	return calls
}

// openTools returns the tools of the calls that are still open, and whether one of them is a
// queued action that does not wait for approval.
func openTools(calls []*client.Request) (names []string, queued bool) {
	for _, c := range calls {
		if c.State != activity.RequestClosed {
			names = append(names, command.PlainLine(c.Tool))
			queued = queued || c.Wish == activity.WishQueued && c.Intent != activity.IntentAwaiting
		}
	}
	return names, queued
}

// noteEnds notes how calls have ended, because the frame of an end reaches only clients that
// watch at that moment. The writer skips what it has noted already.
func noteEnds(w *terminal.Writer, calls []*client.Request) error {
	for _, c := range calls {
		if c.State == activity.RequestClosed {
			f := client.Frame{Type: client.FrameTask, ID: c.ID, Tool: c.Tool, Status: c.Status}
			if err := w.Frame(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// background reports the work that continues after the answer, or waits for it. It always
// waits for actions that the turn has queued, because they are what the user asked for. each
// gets the frames that come meanwhile.
func (a *program) background(ctx context.Context, s *command.Session, acc client.Accepted, out *answer, w *terminal.Writer, wait bool, each func(context.Context, client.Frame) error) error {
	tree, err := s.Request(ctx, acc.Interaction)
	if err != nil {
		return err
	}
	calls := backgroundCalls(&tree)
	names, queued := openTools(calls)
	if len(names) == 0 {
		// An end that is reported to the conversation has a turn of its own, which may still be running.
		if last, err := newestID(ctx, s, acc.Conversation); err != nil || last == out.last {
			return errors.Join(err, noteEnds(w, calls))
		}
	} else if !wait && !queued {
		if err := w.Close(); err != nil {
			return err
		}
		when := "in the background"
		if s.IsLocal() {
			when = "when Steward runs again"
		}
		a.Note("%s continues %s; --wait waits for it, and steward requests show %s shows it", strings.Join(names, ", "), when, activity.RequestRef(acc.Interaction))
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	frames, failed := make(chan client.Frame), make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for f, err := range s.Watch(ctx, acc.Conversation, out.cursor) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-done }()
	look := time.NewTicker(300 * time.Millisecond)
	defer look.Stop()
	for over := false; ; {
		select {
		case f := <-frames:
			if err := each(ctx, f); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			if !over {
				if tree, err = s.Request(ctx, acc.Interaction); err != nil {
					return err
				}
				calls = backgroundCalls(&tree)
				_, queued = openTools(calls)
				over = tree.State == activity.RequestClosed || !wait && !queued
			}
			if over {
				if last, err := newestID(ctx, s, acc.Conversation); err != nil {
					return err
				} else if last == out.last {
					return noteEnds(w, calls)
				}
			}
		}
	}
}

// newestID returns the id of the newest message of a conversation.
func newestID(ctx context.Context, s *command.Session, conv string) (string, error) {
	var page struct{ Messages []struct{ ID string } }
	err := s.Call(ctx, "GET /conversations/{id}/messages", client.Params{"id": conv, "reverse": "true", "limit": "1"}, nil, &page)
	if err != nil || len(page.Messages) == 0 {
		return "", err
	}
	return page.Messages[0].ID, nil
}

// maxInput is the size limit of what ask sends: the question and everything attached.
const maxInput = 10 << 20

// sizeOf returns the number of bytes of text in blocks.
func sizeOf(blocks []client.Block) (n int) {
	for _, b := range blocks {
		if b.Type != "image" {
			n += len(b.Text) + len(b.Data)
		}
	}
	return n
}

// costOf returns a function that estimates what tokens cost in a model, in US dollars; 0:
// unknown. If another process runs the node, only full names of models are known.
func (a *program) costOf(s *command.Session) func(model string, u client.Usage) float64 {
	price, err := a.Pricing()
	if err != nil {
		return nil // unlikely: the settings were loaded before
	}
	aliases := map[string]llm.Alias{}
	if s.Local != nil {
		aliases = s.Local.Found.Aliases
	}
	return func(model string, u client.Usage) float64 {
		if chain := aliases[cmp.Or(model, llm.DefaultAlias)].Models; len(chain) > 0 {
			model = chain[0]
		}
		return price(model, message.Usage(u))
	}
}

// windowOf returns a function that returns the size of a model's context window in tokens.
func (a *program) windowOf(s *command.Session, set *settings.Loaded) func(model string) int {
	models, err := llm.New(llm.Config{Windows: set.Windows})
	if s.Local != nil { // it has asked the providers
		models, err = s.Local.Found.Models, nil
	}
	if err != nil {
		return nil // unlikely: the settings were checked
	}
	return func(model string) int { return models.Window([]string{model}) }
}

// pipeWait is how long ask waits for the first byte of a pipe that no flag names.
// Some programs start others with a pipe that stays open and silent forever.
const pipeWait = 3 * time.Second

// question makes a message from the command line. The arguments are the user's own words.
// Files and piped input are attached, and count as written by others (see
// docs/concepts/taint.md). The argument "-" stands for standard input, as the user's own
// words.
func (a *program) question(ctx context.Context, args, files []string) ([]client.Block, error) {
	text := strings.TrimSpace(strings.Join(args, " "))
	own := text == "-"
	switch {
	case own && slices.Contains(files, "-"):
		return nil, command.Usage("standard input cannot be both the question and an attachment")
	case own:
		b, err := readAll(a.Stdin, "standard input", maxInput)
		if err == nil && !utf8.Valid(b) {
			err = fault.New(fault.Invalid, "input_invalid", "standard input is not UTF-8 text").WithHint("attach it with --file -, and write a question")
		}
		if err != nil {
			return nil, err
		}
		text = strings.TrimSpace(string(b))
	case !slices.Contains(files, "-") && a.piped(ctx):
		files = append(slices.Clip(files), "-")
	}
	attached, err := a.attach(ctx, files)
	if err != nil {
		return nil, err
	}
	switch {
	case text == "" && len(attached) > 0:
		return nil, command.Usage("there is no question about the attachments; write it after ask. If the piped text is your own words, use steward ask -")
	case text == "":
		return nil, command.Usage("there is no question; write it after ask")
	}
	return append(terminal.Words(text), attached...), nil
}

// piped reports whether there is input on standard input although the user did not
// mention it.
func (a *program) piped(ctx context.Context) bool {
	in, ok := a.Stdin.(*app.Input)
	if !ok || app.IsTerminal(in) {
		return false
	}
	wait := time.NewTimer(pipeWait)
	defer wait.Stop()
	if !in.Await(wait.C) {
		if ctx.Err() == nil {
			a.Note("steward: standard input is open, but nothing arrived within %s; it is not read (--file - waits for it, < /dev/null closes it)", pipeWait)
		}
		return false
	}
	return len(in.Got) > 0 || !errors.Is(in.Err, io.EOF) && !errors.Is(in.Err, os.ErrClosed)
}

// attach reads files; "-" is standard input. Their total size is limited.
func (a *program) attach(ctx context.Context, files []string) (blocks []client.Block, err error) {
	set, err := a.Settings()
	if err != nil {
		return nil, err
	}
	private, left := a.Unseen(set), maxInput
	for _, path := range files {
		var b []byte
		name := "standard input"
		if path == "-" {
			b, err = readAll(a.Stdin, name, left)
		} else {
			if private(a.Path(path)) {
				return nil, terminal.Private(path)
			}
			name = filepath.Base(path)
			b, err = a.readFile(ctx, path, left)
		}
		if err != nil {
			return nil, err
		}
		if len(b) == 0 {
			continue
		}
		left -= len(b)
		x, err := terminal.Attachment(name, b)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, x)
	}
	return blocks, nil
}

func (a *program) readFile(ctx context.Context, path string, most int) ([]byte, error) {
	unreadable := func(err error) error {
		return fault.New(fault.Invalid, "file_unreadable", "the file cannot be attached: %w", err).WithHint("name a file of text, an image, a recording, a PDF or a Word file")
	}
	f, err := os.Open(a.Path(path))
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = fmt.Errorf("%s is a folder", path)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	return readAll(&app.Input{Ctx: ctx, From: f}, path, most) // it may be a pipe
}

// readAll reads a source to its end, up to a size limit.
func readAll(in io.Reader, name string, most int) ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
	switch {
	case errors.Is(err, os.ErrClosed):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", name, err)
	case len(b) > most:
		return nil, fault.New(fault.TooLarge, "input_too_large", "%s is too large: a request takes at most %d MB", name, maxInput>>20).
			WithHint("attach less")
	}
	return b, nil
}
