package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"steward/internal/fault"
)

// ageEnd ends the names of encrypted backups.
const ageEnd = ".tar.age"

// pack writes a backup that is a folder as a tar stream, encrypted for recipients if there are any.
func pack(ctx context.Context, folder string, m Manifest, to []age.Recipient, out io.Writer) (err error) {
	if len(to) > 0 {
		sealed, err := age.Encrypt(out, to...)
		if err != nil {
			return err
		}
		return errors.Join(packPlain(ctx, folder, m, sealed), sealed.Close())
	}
	return packPlain(ctx, folder, m, out)
}

func packPlain(ctx context.Context, folder string, m Manifest, out io.Writer) error {
	b := bufio.NewWriterSize(out, 1<<16)
	t := tar.NewWriter(b)
	head, err := os.Stat(filepath.Join(folder, manifestName))
	if err != nil {
		return err
	}
	if err := packFile(t, folder, File{Path: manifestName, Mode: 0o600, At: m.Made, Size: head.Size()}); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := packFile(t, folder, f); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), b.Flush())
}

func packFile(t *tar.Writer, folder string, f File) error {
	h := &tar.Header{Name: f.Path, Mode: int64(f.Mode), ModTime: f.At.Truncate(time.Second), Size: f.Size, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	switch {
	case f.Dir:
		h.Typeflag, h.Name = tar.TypeDir, f.Path+"/"
	case f.Link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
	}
	if err := t.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	in, err := os.Open(filepath.Join(folder, filepath.FromSlash(f.Path)))
	if err != nil {
		return err
	}
	_, err = io.Copy(t, in)
	return errors.Join(err, in.Close())
}

// A Source is a backup that is read, once, from its beginning to its end.
type Source struct {
	read func(each func(name string, r io.Reader) error) error // first the manifest, then each file with content
	name string
}

// FolderSource returns the source for a backup that is a folder.
func FolderSource(folder string) Source {
	return Source{name: folder, read: func(each func(string, io.Reader) error) error {
		m, err := readManifest(folder)
		if err != nil {
			return err
		}
		open := func(name string) error {
			in, err := os.Open(filepath.Join(folder, filepath.FromSlash(name)))
			if errors.Is(err, fs.ErrNotExist) {
				return damaged("%s is missing", name)
			}
			if err != nil {
				return err
			}
			return errors.Join(each(name, in), in.Close())
		}
		if err := open(manifestName); err != nil {
			return err
		}
		for _, f := range m.Files {
			if f.Dir || f.Link != "" {
				continue
			}
			if err := open(f.Path); err != nil {
				return err
			}
		}
		return nil
	}}
}

// Keys returns what opens an encrypted backup. It is called only if the backup is encrypted.
type Keys func() ([]age.Identity, error)

// StreamSource returns the source for a backup that is a stream.
func StreamSource(name string, in io.Reader, keys Keys) Source {
	return Source{name: name, read: func(each func(string, io.Reader) error) error {
		plain, err := decrypt(bufio.NewReaderSize(in, 1<<16), keys)
		if err != nil {
			return err
		}
		t := tar.NewReader(plain)
		for {
			h, err := t.Next()
			if errors.Is(err, io.EOF) {
				_, err = io.Copy(io.Discard, plain) // the end of an encrypted stream is authenticated too
				if err != nil {
					return damaged("its end cannot be read: %s", err)
				}
				return nil
			}
			if err != nil {
				return damaged("it is no tar archive, or is cut off: %s", err)
			}
			if h.Typeflag != tar.TypeReg {
				continue // folders and links are in the manifest
			}
			if err := each(h.Name, whole{t}); err != nil {
				return err
			}
		}
	}}
}

// whole is a file in a stream. If the stream ends within it or cannot be read, the backup is damaged.
type whole struct{ io.Reader }

func (w whole) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged("it is cut off, or cannot be read: %s", err)
	}
	return n, err
}

// OpenSource opens a backup by its path. The function closes it.
func OpenSource(path string, keys Keys) (Source, func() error, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Source{}, nil, fault.New(fault.NotFound, "backup_not_found", "there is no backup %s: %w", path, err).WithHint("steward backup list FOLDER shows the backups in a folder")
	}
	if info.IsDir() {
		return FolderSource(path), func() error { return nil }, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return Source{}, nil, fault.New(fault.Denied, "backup_unreadable", "%s cannot be read: %w", path, err).WithHint("call as a user who can read it")
	}
	return StreamSource(path, f, keys), f.Close, nil
}

// decrypt returns the plain stream, whether it is encrypted or not.
func decrypt(in *bufio.Reader, keys Keys) (io.Reader, error) {
	head, err := in.Peek(len(armor.Header))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("cannot read the backup: %w", err)
	}
	var sealed io.Reader = in
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")), bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return nil, fault.New(fault.Invalid, "backup_compressed", "the backup is compressed").
			WithHint("decompress it on the way, for example: gunzip -c FILE | steward restore -")
	case bytes.HasPrefix(head, []byte("age-encryption.org/")):
	case string(head) == armor.Header:
		sealed = armor.NewReader(in)
	default:
		return in, nil
	}
	if keys == nil {
		return nil, fault.New(fault.Denied, "backup_encrypted", "the backup is encrypted").WithHint("name your key with --identity FILE, or the file of the passphrase with --passphrase-file FILE")
	}
	ids, err := keys()
	if err != nil {
		return nil, err
	}
	plain, err := age.Decrypt(sealed, ids...)
	var wrong *age.NoIdentityMatchError
	if errors.As(err, &wrong) {
		return nil, fault.New(fault.Denied, "backup_key_wrong", "the backup cannot be opened with this key or passphrase").WithHint("use the one for which it was encrypted")
	}
	if err != nil {
		return nil, damaged("it cannot be decrypted: %s", err)
	}
	return plain, nil
}

// Recipients reads for whom backups are encrypted: public keys of age (age1…), one in a text.
func Recipients(keys []string) ([]age.Recipient, error) {
	var all []age.Recipient
	for _, k := range keys {
		list, err := age.ParseRecipients(strings.NewReader(k))
		if err != nil {
			return nil, fault.New(fault.Invalid, "recipient_invalid", "%.80q is not a public key of age", k).WithHint("age-keygen makes a key and prints its public key, which begins with age1")
		}
		all = append(all, list...)
	}
	return all, nil
}

// WithPassphrase returns the recipient for a passphrase.
func WithPassphrase(text string) (age.Recipient, error) {
	r, err := age.NewScryptRecipient(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "passphrase_invalid", "the passphrase cannot be used: %w", err).WithHint("use one that is not empty")
	}
	return r, nil
}

// Identities reads what opens backups: a file of private keys of age, a passphrase, or both.
func Identities(file, passphrase string) ([]age.Identity, error) {
	var all []age.Identity
	if file != "" {
		b, err := os.ReadFile(file)
		if err == nil {
			all, err = age.ParseIdentities(bytes.NewReader(b))
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "identity_invalid", "%s has no private key of age: %w", file, err).WithHint("name the file that age-keygen wrote")
		}
	}
	if passphrase != "" {
		id, err := age.NewScryptIdentity(passphrase)
		if err != nil {
			return nil, fault.New(fault.Invalid, "passphrase_invalid", "the passphrase cannot be used: %w", err).WithHint("use the one that the backup was encrypted with")
		}
		all = append(all, id)
	}
	return all, nil
}
