package cli

import (
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

	"steward/client"
	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/settings"
	"steward/internal/terminal"
)

// largestInput is the size limit of what ask sends: the question and everything attached.
const largestInput = 10 << 20

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
func (a *program) costOf(s *session) func(model string, u client.Usage) float64 {
	price, err := a.Pricing()
	if err != nil {
		return nil // unlikely: the settings were loaded before
	}
	aliases := map[string]llm.Alias{}
	if s.local != nil {
		aliases = s.local.Found.Aliases
	}
	return func(model string, u client.Usage) float64 {
		if chain := aliases[cmp.Or(model, llm.DefaultAlias)].Models; len(chain) > 0 {
			model = chain[0]
		}
		return price(model, message.Usage(u))
	}
}

// windowOf returns a function that returns the size of a model's context window in tokens.
func (a *program) windowOf(s *session, set *settings.Loaded) func(model string) int {
	models, err := llm.New(llm.Config{Windows: set.Windows})
	if s.local != nil { // it has asked the providers
		models, err = s.local.Found.Models, nil
	}
	if err != nil {
		return nil // unlikely: the settings were checked
	}
	return func(model string) int { return models.Window([]string{model}) }
}

// pipeWait is how long ask waits for the first byte of a pipe that it was not told to read.
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
		return nil, usage("standard input cannot be both the question and an attachment")
	case own:
		b, err := readAll(a.stdin, "standard input", largestInput)
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
		return nil, usage("there is no question about the attachments; write it after ask. If the piped text is your own words, use steward ask -")
	case text == "":
		return nil, usage("there is no question; write it after ask")
	}
	return append(terminal.Words(text), attached...), nil
}

// piped reports whether there is input on standard input although the user did not
// mention it.
func (a *program) piped(ctx context.Context) bool {
	in, ok := a.stdin.(*app.Input)
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
	private, left := a.Unseen(set), largestInput
	for _, path := range files {
		var b []byte
		name := "standard input"
		if path == "-" {
			b, err = readAll(a.stdin, name, left)
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
		return nil, fault.New(fault.TooLarge, "input_too_large", "%s is too large: a request takes at most %d MB", name, largestInput>>20).
			WithHint("attach less")
	}
	return b, nil
}
