package conversations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/importexport"
	"steward/internal/server/api"
)

func (a *program) importCommand() *cobra.Command {
	var format string
	var mine bool
	c := &cobra.Command{
		Use: "import FILE…", Short: "Import conversations from exports", GroupID: "keep", Args: cobra.MinimumNArgs(1),
		Long: "Import conversations: Steward's own exports, conversations.json of ChatGPT and of Claude (also in the\n" +
			"zip file in which they come), lists of messages with role and content as OpenAI's, and files with one\n" +
			"of these per line. The format is detected from the content. - means standard input.\n\n" +
			"Every import creates new conversations. All of it is marked as untrusted, since anybody may have\n" +
			"written a file: facts that are read from it stay quotations. With --mine you say that it is your own\n" +
			"export, unchanged, and what you wrote in it counts as yours. An unchanged export from this data\n" +
			"folder is restored as it was.",
		Example: "  steward import chatgpt-export.zip\n  steward import backup/*.json --json",
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(importexport.Formats(), format) {
				return command.Usage("--format must be one of %s, not %q", strings.Join(importexport.Formats(), ", "), format)
			}
			return a.importFiles(c.Context(), args, format, mine)
		},
	}
	c.Flags().StringVar(&format, "format", importexport.Auto, "accept only files of this format: "+strings.Join(importexport.Formats(), ", "))
	c.Flags().BoolVar(&mine, "mine", false, "the file is your own export, unchanged: what you wrote in it counts as yours")
	command.CompleteFlag(c, "format", command.Words(importexport.Formats()...))
	return c
}

// importFiles imports files one after the other and reports the results.
func (a *program) importFiles(ctx context.Context, files []string, format string, mine bool) error {
	var opened []*os.File
	defer func() {
		for _, f := range opened {
			f.Close() //nolint:errcheck // it was only read
		}
	}()
	inputs := make([]io.Reader, len(files))
	for i, name := range files { // open all before reading any
		if name == "-" {
			inputs[i] = a.Stdin
			continue
		}
		f, err := os.Open(a.Path(name))
		if err == nil {
			opened = append(opened, f)
			var st os.FileInfo
			if st, err = f.Stat(); err == nil && st.IsDir() {
				err = errors.New("it is a folder")
			}
		}
		if err != nil {
			return fault.New(fault.Invalid, "file_unreadable", "%s cannot be read: %w", name, err).WithHint("name the export's zip file, or its conversations.json")
		}
		inputs[i] = f
	}
	var rep api.ImportReport
	err := a.With(ctx, command.NeedIdleNode, func(s *command.Session) (err error) {
		rep, err = importAll(ctx, s, inputs, files, format, mine)
		return err
	})
	if err != nil && len(rep.Imported) == 0 {
		return err
	}
	return a.reportImport(rep, err)
}

func importAll(ctx context.Context, s *command.Session, inputs []io.Reader, names []string, format string, mine bool) (api.ImportReport, error) {
	all := api.ImportReport{Imported: []api.ImportedView{}, Refused: []api.ImportFailure{}, Notes: []string{}}
	for i, in := range inputs {
		name := filepath.Base(names[i])
		if names[i] == "-" {
			name = "standard input"
		}
		var rep api.ImportReport
		err := s.Call(ctx, "POST /import", client.Params{"name": name, "format": format, "mine": strconv.FormatBool(mine)}, in, &rep)
		all.Imported = append(all.Imported, rep.Imported...)
		all.Refused = append(all.Refused, rep.Refused...)
		all.Notes = append(all.Notes, rep.Notes...)
		if f := fault.Of(err); err != nil && strings.HasPrefix(f.Code, "import_") {
			all.Refused = append(all.Refused, api.ImportFailure{Code: f.Code, Message: app.WithoutRemedy(f), Remedy: f.Remedy})
		} else if err != nil {
			return all, err
		}
	}
	return all, nil
}

// reportImport prints what was imported and what was not. cut is the error that ended the
// import early.
func (a *program) reportImport(rep api.ImportReport, cut error) error {
	if a.JSON {
		if err := a.PrintJSON(rep); err != nil {
			return err
		}
	} else if err := a.printImport(rep); err != nil {
		return err
	}
	if cut != nil {
		return cut
	}
	for _, r := range rep.Refused {
		if r.Code != "import_chat_empty" {
			return command.ExitCode(command.ExitFailed) // the failures are printed already
		}
	}
	return nil
}

func (a *program) printImport(rep api.ImportReport) error {
	messages := 0
	if len(rep.Imported) > 0 {
		rows := [][]string{{"ID", "FROM", "LAST USED", "MESSAGES", "BRANCHES", "TITLE"}}
		for _, c := range rep.Imported {
			messages += c.Messages
			rows = append(rows, []string{c.ID.String(), c.Source, command.MinuteOf(c.Updated), strconv.Itoa(c.Messages), strconv.Itoa(c.Branches), command.PlainLine(c.Title)})
		}
		if err := a.Print(command.Columns(rows, 0)); err != nil {
			return err
		}
	}
	empty := 0
	for _, r := range rep.Refused {
		if r.Code == "import_chat_empty" && len(rep.Imported) > 0 {
			empty++
			continue
		}
		fmt.Fprintf(a.Stderr, "not imported: %s\n", command.PlainLine(r.Message))
		if r.Remedy != "" && len(rep.Refused) == 1 {
			fmt.Fprintf(a.Stderr, "  %s\n", r.Remedy)
		}
	}
	if len(rep.Imported) == 0 {
		a.Note("nothing was imported")
	} else {
		a.Note("imported %s with %s", app.Plural(len(rep.Imported), "conversation"), app.Plural(messages, "message"))
	}
	if empty > 0 {
		a.Note("left out %s without messages", app.Plural(empty, "conversation"))
	}
	for _, n := range importNotes(rep) {
		a.Note("note: %s", command.PlainLine(n))
	}
	return nil
}

// importNotes summarizes the notes: one that applies to many conversations is printed once.
func importNotes(rep api.ImportReport) []string {
	type sum struct{ count, chats int }
	sums := map[string]*sum{}
	var order []string
	for _, c := range rep.Imported {
		for _, n := range c.Notes {
			if sums[n.Text] == nil {
				sums[n.Text] = &sum{}
				order = append(order, n.Text)
			}
			sums[n.Text].count += n.Count
			sums[n.Text].chats++
		}
	}
	out := slices.Clone(rep.Notes)
	for _, text := range order {
		switch s := sums[text]; {
		case s.count == 1:
			out = append(out, text)
		case s.chats == 1:
			out = append(out, fmt.Sprintf("%s (%d times)", text, s.count))
		default:
			out = append(out, fmt.Sprintf("%s (%d times in %d conversations)", text, s.count, s.chats))
		}
	}
	return out
}
