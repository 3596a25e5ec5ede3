// Package documents has the commands about documents: documents add, list, show, search and remove.
//
// add reads files on this machine and sends them to the Steward, or to the data folder if none is running. A
// folder is read with the folders in it, and one line says how far that is. A file that cannot be read is
// reported by itself, and the others are added. show and remove name a document by its path, its name, words of
// that, or its id. Every passage is shown under its citation: a page, a line, or a message of a mailbox.
package documents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/memory/documents"
)

// program is one run of the command line. The commands of this package are its methods.
type program struct {
	*command.Program
}

// Commands returns the commands of this package, for the run p.
func Commands(p *command.Program) []*cobra.Command {
	a := &program{Program: p}
	return []*cobra.Command{command.Group(&cobra.Command{
		Use: "documents", Aliases: []string{"document", "docs"}, Short: "Keep documents that you and Steward can search", GroupID: "keep",
		Long: "Documents are files that you add: PDF, Word, HTML, Markdown, text, source code and mail. Their text is cut into\n" +
			"passages, which searches find and cite with page or line. Agents search them with the tool documents.search.\n" +
			"Folders under documents.folders in the settings are watched: what is in them is added, and read again when it\n" +
			"changes. What a document says counts as text of others, unless you say that it is your own.",
	}, a.add(), a.list(), a.show(), a.search(), a.remove())}
}

// maxFiles bounds how many files one call of add reads.
const maxFiles = documents.MaxDocuments

func (a *program) add() *cobra.Command {
	var own bool
	c := &cobra.Command{Use: "add FILE…", Short: "Add files, or all documents in a folder", Args: cobra.MinimumNArgs(1),
		Long: "Add files, or all documents in a folder and the folders in it. A file that was added before is read again if it has\n" +
			"changed. In folders, hidden files are left out, and files whose names do not say that they are documents.",
		Example: "  steward documents add report.pdf notes/\n  steward documents add diary.md --own"}
	c.Flags().BoolVar(&own, "own", false, "these are your own texts: what they say is trusted as if you said it")
	return a.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		files, err := a.files(args)
		if err != nil {
			return err
		}
		out := []client.Document{}
		refused := 0
		for i, file := range files {
			d, err := a.addFile(ctx, s, file, own)
			if err != nil {
				return err
			}
			out = append(out, d)
			where := ""
			if len(files) > 1 {
				where = fmt.Sprintf("%d/%d ", i+1, len(files))
			}
			switch {
			case d.Status == "refused":
				refused++
				a.Note("%srefused %s: %s", where, command.PlainLine(d.Name), reason(d))
			case !a.JSON:
				a.Note("%sadded %s (%s)", where, command.PlainLine(d.Name), passages(d))
			}
			if d.Notice != "" && !a.JSON {
				a.Note("%s: %s", command.PlainLine(d.Name), command.PlainLine(d.Notice))
			}
		}
		if a.JSON {
			if err := a.PrintJSON(out); err != nil {
				return err
			}
		}
		if len(files) > 1 && !a.JSON {
			a.Note("%d added, %d refused", len(out)-refused, refused)
		}
		if refused > 0 {
			return command.ExitCode(command.ExitFailed) // the reasons are printed already
		}
		return nil
	})
}

// files returns the paths of the files that are named, and of the documents in folders.
func (a *program) files(args []string) (out []string, err error) {
	unreadable := func(name string, err error) error {
		return fault.New(fault.Invalid, "file_unreadable", "%s cannot be read: %w", name, err).WithHint("check the path")
	}
	for _, arg := range args {
		at := a.Path(arg)
		info, err := os.Stat(at)
		if err != nil {
			return nil, unreadable(arg, err)
		}
		if !info.IsDir() {
			out = append(out, at)
			continue
		}
		err = filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
			hidden := path != at && strings.HasPrefix(d.Name(), ".")
			switch {
			case err != nil:
				return err
			case d.IsDir() && (hidden || d.Name() == "node_modules"):
				return fs.SkipDir
			case d.Type().IsRegular() && !hidden && documents.Readable(d.Name()):
				out = append(out, path)
			}
			if len(out) > maxFiles {
				return fmt.Errorf("it has more than %d documents", maxFiles)
			}
			return nil
		})
		if err != nil {
			return nil, unreadable(arg, err)
		}
	}
	if len(out) == 0 {
		return nil, fault.New(fault.NotFound, "document_not_found", "there are no documents in %s", strings.Join(args, ", ")).
			WithHint("name a file, to add it whatever its name")
	}
	return out, nil
}

func (a *program) addFile(ctx context.Context, s *command.Session, path string, own bool) (client.Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return client.Document{}, fault.New(fault.Invalid, "file_unreadable", "%s cannot be read: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() > documents.MaxBytes {
		return client.Document{Name: filepath.Base(path), Path: path, Size: int(info.Size()), Status: "refused", Code: "extract_too_large", Reason: fmt.Sprintf("it has more than %d MB", documents.MaxBytes>>20)}, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a file")
	}
	if err != nil {
		return client.Document{}, fault.New(fault.Invalid, "file_unreadable", "%s cannot be read: %w", path, err)
	}
	return s.AddDocument(ctx, path, own, io.LimitReader(f, documents.MaxBytes))
}

// reason says why a document was refused.
func reason(d client.Document) string {
	s := command.PlainLine(d.Reason)
	if d.Code != "" {
		s += " [" + d.Code + "]"
	}
	return s
}

// passages says how much of a document is found.
func passages(d client.Document) string {
	s := "1 passage"
	if d.Passages != 1 {
		s = strconv.Itoa(d.Passages) + " passages"
	}
	if d.Pages > 0 {
		s += ", " + strconv.Itoa(d.Pages) + " pages"
	}
	if d.Cut {
		s += ", the end is left out"
	}
	return s
}

func (a *program) list() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List documents, and how far watched folders are read"}
	c.RunE = func(c *cobra.Command, _ []string) error {
		all := client.DocumentList{Documents: []client.Document{}, Folders: []client.DocumentFolder{}}
		err := a.With(c.Context(), command.NeedReadOnly, func(s *command.Session) (err error) {
			all, err = s.Documents(c.Context())
			return err
		})
		if err != nil && !errors.Is(err, command.ErrNothingStored) {
			return err
		}
		if a.JSON {
			return a.PrintJSON(all)
		}
		for _, f := range all.Folders {
			a.Note("%s", folderLine(f))
		}
		if len(all.Documents) == 0 {
			a.Note("there are no documents: steward documents add begins with one")
			return nil
		}
		return a.Print(a.table(all.Documents))
	}
	return c
}

func folderLine(f client.DocumentFolder) string {
	line := fmt.Sprintf("%s: %d of %d files read", command.PlainLine(f.Path), f.Read+f.Refused, f.Found)
	if f.Refused > 0 {
		line += fmt.Sprintf(", %d refused", f.Refused)
	}
	if f.Reading != "" {
		line += ", reading " + command.PlainLine(f.Reading)
	}
	if f.Error != "" {
		line += ": " + command.PlainLine(f.Error)
	}
	return line
}

// widestName is the width of the column with names in a narrow terminal.
const widestName = 40

func (a *program) table(list []client.Document) string {
	rows := [][]string{{"DOCUMENT", "KIND", "PASSAGES", "ID", "NOTE"}}
	for _, d := range list {
		note := ""
		switch {
		case d.Status == "refused":
			note = "refused: " + reason(d)
		case d.Own:
			note = "own"
		case d.Cut:
			note = "the end is left out"
		}
		rows = append(rows, []string{command.PlainLine(d.Name), d.Kind, strconv.Itoa(d.Passages), d.ID[:8], note})
	}
	lines, _ := command.Table([]command.Column{{Most: widestName}, {}, {Right: true}, {}, {Least: command.MinWhat}}, rows, a.Width())
	return strings.Join(lines, "\n") + "\n"
}

func (a *program) show() *cobra.Command {
	c := &cobra.Command{Use: "show DOCUMENT", Short: "Show a document and its text"}
	return a.APICommand(command.NeedReadOnly, c, func(ctx context.Context, s *command.Session, args []string) error {
		v, err := s.Document(ctx, args[0])
		return command.PrintValue(a.Program, v, err, func(v client.Document) string {
			var b strings.Builder
			fmt.Fprintf(&b, "%s\n  id      %s\n  path    %s\n", command.PlainLine(v.Name), v.ID, command.PlainLine(v.Path))
			if v.Title != "" {
				fmt.Fprintf(&b, "  title   %s\n", command.PlainLine(v.Title))
			}
			fmt.Fprintf(&b, "  labels  %s\n", strings.Join(v.Labels, ", "))
			if v.Status == "refused" {
				fmt.Fprintf(&b, "  refused %s\n", reason(v))
			} else {
				fmt.Fprintf(&b, "  text    %s\n", passages(v))
			}
			if v.Triples > 0 || v.Notice != "" {
				fmt.Fprintf(&b, "  graph   %s\n", cmp.Or(command.PlainLine(v.Notice), strconv.Itoa(v.Triples)+" statements"))
			}
			for _, p := range v.Text {
				b.WriteString("\n" + passage(p))
			}
			return b.String()
		})
	})
}

// passage shows a passage under its citation.
func passage(p client.Passage) string {
	head := p.Cite
	if p.Heading != "" && !strings.Contains(p.Cite, p.Heading) {
		head += ", " + p.Heading
	}
	var b strings.Builder
	b.WriteString(command.PlainLine(head) + "\n")
	for _, l := range strings.Split(p.Text, "\n") {
		b.WriteString(strings.TrimRight("  "+command.PlainLine(l), " ") + "\n")
	}
	return b.String()
}

// shownLines are the lines that are shown of a passage that a search finds.
const shownLines = 9

func (a *program) search() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "search WORDS…", Short: "Find passages in your documents", Args: cobra.MinimumNArgs(1),
		Long: "Find passages, the best first: those with rare words of the query, and with many of them. Case and accents do\n" +
			"not matter, nor do the endings of English, German, French and Spanish words. Of a long passage the lines about\n" +
			"the words are shown; documents show has all of it.",
		Example: "  steward documents search notice period of the lease\n  steward documents search invoice total --limit 1"}
	command.LimitFlag(c, &limit, documents.DefaultHits, "show at most `N`")
	c.RunE = func(c *cobra.Command, args []string) error {
		hits := []client.DocumentHit{}
		query := strings.Join(args, " ")
		err := a.With(c.Context(), command.NeedReadOnly, func(s *command.Session) (err error) {
			hits, err = s.SearchDocuments(c.Context(), query, min(limit, documents.MaxHits))
			return err
		})
		if errors.Is(err, command.ErrNothingStored) {
			err = nil
		}
		return command.PrintList(a.Program, hits, err, "nothing was found", func(hits []client.DocumentHit) string {
			var all []string
			for _, h := range hits {
				h.Text = documents.Excerpt(h.Text, query, shownLines)
				all = append(all, passage(h.Passage))
			}
			return strings.Join(all, "\n")
		})
	}
	return c
}

func (a *program) remove() *cobra.Command {
	var yes bool
	c := &cobra.Command{Use: "remove DOCUMENT", Short: "Erase a document and its text from Steward; the file stays"}
	command.YesFlag(c, &yes)
	return a.StoredCommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		v, err := s.Document(ctx, args[0])
		if err != nil {
			return err
		}
		if err := a.ConfirmDelete(yes, []string{"document " + command.PlainLine(v.Path)}); err != nil {
			return err
		}
		v, err = s.RemoveDocument(ctx, v.ID)
		return a.PrintDone(v, err, "%s is removed", command.PlainLine(v.Name))
	})
}
