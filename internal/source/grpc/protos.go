package grpc

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"steward/internal/fault"
	"steward/internal/strict"
)

// Limits on .proto files.
const (
	maxProtoFile   = 1 << 20 // bytes
	maxProtoBytes  = 8 << 20 // of all files
	maxProtoLine   = 4000    // bytes: the parser's cost of finding a column grows with it
	maxProtoFiles  = 2000
	compileTimeout = 20 * time.Second
)

// findProtos returns the .proto files that a declaration names, or else those in the folder's tools
// (found).
func findProtos(dir string, d Declaration) (files []string, found bool, err error) {
	patterns := d.Protos
	if len(patterns) == 0 {
		if dir == "" || d.Reflection {
			return nil, false, nil
		}
		patterns, found = []string{"tools/*.proto"}, true
	} else if d.Reflection {
		return nil, false, badDeclaration("protos and reflection exclude each other").WithHint("leave one of them out")
	}
	for _, p := range patterns {
		matches, err := filepath.Glob(absolute(dir, p))
		if err != nil {
			return nil, false, badDeclaration("%q in protos is not a file pattern", p).WithHint("write a file's name, or a glob such as tools/*.proto")
		}
		if len(matches) == 0 && !found {
			return nil, false, badDeclaration("there is no file %s, which protos names", p).WithHint("correct protos, or leave it out to ask the server (reflection)")
		}
		files = append(files, matches...)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) > maxProtoFiles {
		return nil, false, badDeclaration("protos matches %d files; the limit is %d", len(files), maxProtoFiles).WithHint("select fewer files")
	}
	return files, found, nil
}

// compile reads .proto files and their imports. It returns all files by name, and the paths of
// those on disk.
func compile(dir string, d Declaration, files []string) (map[string]*descriptorpb.FileDescriptorProto, []string, error) {
	r := &reader{paths: map[string]string{}}
	for _, imp := range d.Imports {
		r.roots = append(r.roots, absolute(dir, imp))
	}
	if dir != "" {
		r.roots = append(r.roots, filepath.Join(dir, "tools"), dir)
	}
	for _, f := range files {
		if parent := filepath.Dir(f); !slices.Contains(r.roots, parent) {
			r.roots = append(r.roots, parent)
		}
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = r.name(f)
	}
	var bad []error
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(r),
		SourceInfoMode: protocompile.SourceInfoStandard,
		Reporter: reporter.NewReporter(func(err reporter.ErrorWithPos) error {
			if bad = append(bad, r.fault(err)); len(bad) == 8 {
				return err
			}
			return nil
		}, nil),
	}
	ctx, cancel := context.WithTimeout(context.Background(), compileTimeout)
	defer cancel()
	linked, err := c.Compile(ctx, names...)
	if len(bad) > 0 {
		return nil, nil, errors.Join(bad...)
	} else if at := reporter.ErrorWithPos(nil); errors.As(err, &at) {
		return nil, nil, r.fault(at)
	} else if err != nil {
		return nil, nil, fault.New(fault.Invalid, "grpc_proto_invalid", "the .proto files are invalid: %w", err).WithHint("correct them")
	}
	out, err := protosOf(linked)
	return out, r.read(), err
}

// protosOf returns compiled files and all their imports.
func protosOf(linked linker.Files) (map[string]*descriptorpb.FileDescriptorProto, error) {
	out := map[string]*descriptorpb.FileDescriptorProto{}
	var add func(f protoreflect.FileDescriptor) error
	add = func(f protoreflect.FileDescriptor) error {
		if out[f.Path()] != nil || f.IsPlaceholder() {
			return nil
		}
		// The conversion goes through bytes, so that options get this program's own types.
		b, err := proto.Marshal(protoutil.ProtoFromFileDescriptor(f))
		p := new(descriptorpb.FileDescriptorProto)
		if err == nil {
			err = proto.Unmarshal(b, p)
		}
		if err != nil {
			return badDescription("the file %s: %w", f.Path(), err)
		}
		out[f.Path()] = p
		for i := range f.Imports().Len() {
			if err := add(f.Imports().Get(i).FileDescriptor); err != nil {
				return err
			}
		}
		return nil
	}
	for _, f := range linked {
		if err := add(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reader finds .proto files below folders. It is a protocompile.Resolver.
type reader struct {
	roots []string
	mu    sync.Mutex
	paths map[string]string // by name
	bytes int
}

// name returns the name under which others import a file.
func (r *reader) name(file string) string {
	for _, root := range r.roots {
		if rel, err := filepath.Rel(root, file); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.Base(file)
}

// FindFileByPath implements protocompile.Resolver.
func (r *reader) FindFileByPath(name string) (protocompile.SearchResult, error) {
	var none protocompile.SearchResult
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return none, fault.New(fault.Invalid, "grpc_proto_invalid", "%q is outside the folders of the .proto files", name)
	}
	for _, root := range r.roots {
		path := filepath.Join(root, filepath.FromSlash(name))
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return none, err
		}
		if info.Size() > maxProtoFile {
			return none, fault.New(fault.Invalid, "grpc_proto_invalid", "%s has more than %d bytes", path, maxProtoFile)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return none, err
		}
		return protocompile.SearchResult{Source: bytes.NewReader(strict.Unmarked(text))}, r.note(name, path, text)
	}
	if name == optionsFile {
		return protocompile.SearchResult{Source: bytes.NewReader(optionsText)}, nil
	}
	if own := builtinFile(name, false); own != nil {
		return protocompile.SearchResult{Proto: own}, nil
	}
	return none, protoregistry.NotFound
}

// note records where a file was found, and refuses one that would take too long to parse.
func (r *reader) note(name, path string, text []byte) error {
	for line := range bytes.Lines(text) {
		if len(line) > maxProtoLine {
			return fault.New(fault.Invalid, "grpc_proto_invalid", "%s has a line of more than %d bytes", path, maxProtoLine)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths[name] = path
	if r.bytes += len(text); r.bytes > maxProtoBytes {
		return fault.New(fault.Invalid, "grpc_proto_invalid", "the .proto files have more than %d bytes in all", maxProtoBytes)
	}
	return nil
}

// read returns the paths of the files that were read, sorted.
func (r *reader) read() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.paths {
		out = append(out, p)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fault returns the error for a mistake in a file, with its position.
func (r *reader) fault(err reporter.ErrorWithPos) error {
	pos := err.GetPosition()
	r.mu.Lock()
	path, ok := r.paths[pos.Filename]
	r.mu.Unlock()
	if !ok {
		path = pos.Filename
	}
	return fault.New(fault.Invalid, "grpc_proto_invalid", "%s:%d:%d: %s", path, pos.Line, pos.Col, clip(err.Unwrap().Error(), 500)).
		WithHint("correct the file; imports are looked for in its folder, in tools and in the folders that imports names").
		Detail("file", path).Detail("line", pos.Line).Detail("column", pos.Col)
}
