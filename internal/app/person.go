package app

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/record"
	"steward/internal/resource"
	servicelocal "steward/internal/service/local"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/store/backup"
	"steward/internal/store/sqlite"
	domainlocal "steward/internal/tools/local"

	"steward/internal/conversation"
)

// PersonExport is what an export of one person holds.
type PersonExport struct {
	User          string         `json:"user"`
	Folder        string         `json:"folder"`
	Conversations int            `json:"conversations"`
	Records       map[string]int `json:"records"` // by the type of resource
	Files         int            `json:"files"`
}

// ExportPerson writes everything of a user into a new folder: the account, each conversation in the form that
// steward import reads, every record in the user's space as JSON lines by type, and the files and
// databases that tools and agents keep. The folder is complete or not there. Error codes: user_not_found,
// folder_exists, export_failed.
func (a *App) ExportPerson(ctx context.Context, set *settings.Loaded, user, folder string) (out PersonExport, err error) {
	if _, err := os.Lstat(folder); err == nil {
		return out, fault.New(fault.Conflict, "folder_exists", "%s exists already", folder).WithHint("name a new folder")
	}
	st, err := a.ReadStore(ctx, set)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	account, err := identity.New(st).Known(ctx, user)
	if err != nil {
		return out, err
	}
	partial := folder + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return out, exportFailed(folder, err)
	}
	x := personExport{app: a, set: set, st: st, user: user, to: partial, out: &out}
	out = PersonExport{User: user, Folder: folder, Records: map[string]int{}}
	if err = x.write(ctx, account); err == nil {
		err = os.Rename(partial, folder)
	}
	if err != nil {
		return out, exportFailed(folder, errors.Join(err, os.RemoveAll(partial)))
	}
	return out, nil
}

func exportFailed(folder string, err error) error {
	var own *fault.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	return fault.New(fault.Unavailable, "export_failed", "the export failed: %w", err).WithHint("check that %s can be written and has room", filepath.Dir(folder))
}

type personExport struct {
	app      *App
	set      *settings.Loaded
	st       Store
	user, to string
	out      *PersonExport
}

func (x *personExport) write(ctx context.Context, account identity.Account) error {
	for _, dir := range []string{"conversations", "records", "files", "databases"} {
		if err := os.MkdirAll(filepath.Join(x.to, dir), 0o700); err != nil {
			return err
		}
	}
	profile, err := identity.New(x.st).About(ctx, x.user, identity.Profile{})
	if err == nil {
		err = x.file("account.json", func(w io.Writer) error {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(map[string]any{"account": account, "profile": profile, "exported": time.Now().UTC(), "steward": x.app.VersionText()})
		})
	}
	if err == nil {
		err = x.records(ctx)
	}
	if err == nil {
		err = x.conversations(ctx)
	}
	if err == nil {
		err = x.files(ctx)
	}
	return err
}

// file writes one file of the export.
func (x *personExport) file(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(x.to, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(f)
	return errors.Join(write(b), b.Flush(), f.Close())
}

// personRecord is a line of the records of an export.
type personRecord struct {
	URI     string          `json:"uri"`
	At      time.Time       `json:"at"`
	Version uint64          `json:"version"`
	State   string          `json:"state,omitzero"`
	Body    json.RawMessage `json:"body,omitempty"`
	Bytes   []byte          `json:"bytes,omitempty"` // of a body that is not JSON
}

// records writes all resources in the user's space, a file for each type.
func (x *personExport) records(ctx context.Context) (err error) {
	open := map[string]*os.File{}
	defer func() {
		for _, f := range open {
			err = errors.Join(err, f.Close())
		}
	}()
	for it, err := range store.Items(ctx, x.st, store.ForUser(x.user), store.Query{}) {
		if err != nil {
			return err
		}
		typ := it.URI.Type()
		f := open[typ]
		if f == nil {
			if f, err = os.OpenFile(filepath.Join(x.to, "records", typ+".jsonl"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
				return err
			}
			open[typ] = f
		}
		line := personRecord{URI: it.URI.String(), At: it.At, Version: it.Version, State: it.State}
		if json.Valid(it.Body) {
			line.Body = it.Body
		} else {
			line.Bytes = it.Body
		}
		b, err := json.Marshal(line)
		if err == nil {
			_, err = f.Write(append(b, '\n'))
		}
		if err != nil {
			return err
		}
		x.out.Records[typ]++
	}
	return nil
}

// conversations writes each conversation as the import reads it. Those that agents hold on the user's behalf are in
// the conversations that they belong to, and among the records.
func (x *personExport) conversations(ctx context.Context) error {
	e, sc := x.app.engine(x.st), store.ForUser(x.user)
	for it, err := range store.Items(ctx, x.st, sc, store.Query{Type: record.TypeConversation}) {
		if err != nil {
			return err
		}
		c, err := record.DecodeConversation(it.URI, it.Body)
		if err != nil {
			return err
		}
		if !c.Deleted.IsZero() || !c.Asked.Zero() {
			continue
		}
		conv := record.IDOf(it.URI, record.TypeConversation)
		err = x.file(filepath.Join("conversations", conv.String()+".json"), func(w io.Writer) error {
			return e.ExportAs(ctx, sc, conv, conversation.ExportOptions{}, w)
		})
		if err != nil {
			return err
		}
		x.out.Conversations++
	}
	return nil
}

// files copies the files and databases of the user.
func (x *personExport) files(ctx context.Context) error {
	private := filepath.Join(x.set.Data, "private")
	folders, err := domainlocal.Folders(private, x.user)
	if err != nil {
		return err
	}
	for _, from := range folders {
		rel, err := filepath.Rel(private, from)
		if err != nil {
			return err
		}
		to := filepath.Join(x.to, "files", rel)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.CopyFS(to, os.DirFS(from))); err != nil {
			return err
		}
		err = filepath.WalkDir(to, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				x.out.Files++
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	services := filepath.Join(x.set.Data, "services")
	list, err := servicelocal.Files(services, x.user)
	if err != nil {
		return err
	}
	for _, from := range list {
		rel, err := filepath.Rel(services, from)
		if err != nil {
			return err
		}
		to := filepath.Join(x.to, "databases", rel)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), sqlite.CopyAny(ctx, from, to)); err != nil {
			return err
		}
		x.out.Files++
	}
	return nil
}

// Erasure proves that nothing of a user is left in a data folder.
type Erasure struct {
	User    string     `json:"user"`
	Entries int        `json:"entries"`        // of the log, in the user's space
	Left    []string   `json:"left"`           // what is left: resources with a body, and files
	Head    store.Head `json:"head"`           // up to which the log was verified
	Copies  []string   `json:"copies"`         // older copies of the data folder, which hold what they held
	Store   string     `json:"store,omitzero"` // "postgres": its own backups and write-ahead log hold what they held
}

// ProveErased looks for what is left of a user after an erasure: bodies in the log, resources in the tree, files and
// databases. It verifies the log, whose chain shows that the erased entries were there and that their bodies are
// gone. It also lists the backups and other copies made before: an erasure does not reach them.
func (a *App) ProveErased(ctx context.Context, set *settings.Loaded, user string) (out Erasure, err error) {
	out = Erasure{User: user, Left: []string{}, Copies: []string{}}
	if set.Store != "" {
		out.Store = inPostgres
	}
	st, err := a.ReadStore(ctx, set)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	q := store.LogQuery{Limit: store.MaxLimit}
	for {
		page, err := st.Log(ctx, store.ForUser(user), q)
		if err != nil {
			return out, err
		}
		for _, e := range page.Entries {
			out.Entries++
			if len(e.Body) > 0 && e.Op == resource.OpPut && len(out.Left) < 100 {
				out.Left = append(out.Left, fmt.Sprintf("%s (entry %d)", e.URI, e.Seq))
			}
		}
		if q.After = page.Next; !page.More {
			break
		}
	}
	v, err := st.Verify(ctx)
	if err != nil {
		return out, err
	}
	if out.Head = v.Head; v.Flaw != nil {
		return out, fault.New(fault.Internal, "log_tampered", "entry %d of the log was altered: %s", v.Flaw.Seq, v.Flaw.What).WithHint("steward audit verify shows more")
	}
	folders, err := domainlocal.Folders(filepath.Join(set.Data, "private"), user)
	if err != nil {
		return out, err
	}
	files, err := servicelocal.Files(filepath.Join(set.Data, "services"), user)
	if err != nil {
		return out, err
	}
	out.Left = append(append(out.Left, folders...), files...)
	out.Copies, err = a.copies(ctx, set)
	return out, err
}

// copies returns the backups, and the copies of older data in the data folder.
func (a *App) copies(ctx context.Context, set *settings.Loaded) ([]string, error) {
	all := []string{}
	list, err := a.Backups(set, slog.New(slog.DiscardHandler)).List(ctx)
	if err != nil {
		return all, err
	}
	for _, b := range list.Backups {
		all = append(all, b.Path)
	}
	here, err := os.ReadDir(set.Data)
	if err != nil {
		return all, err
	}
	for _, e := range here {
		if name := e.Name(); backup.SortOf(name) == backup.Aside && name != filepath.Base(backup.Own(set.Data)) {
			all = append(all, filepath.Join(set.Data, name))
		}
	}
	slices.SortFunc(all, func(x, y string) int { return cmp.Compare(strings.ToLower(x), strings.ToLower(y)) })
	return all, nil
}
