// Command gen generates Go code from .proto files: a client of Steward's services, with which the tests call them,
// and what examples/hash uses. It needs only Go: it compiles the files itself, and the plugins are tools of the module.
//
//	go run ./test/rpc/gen
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// job is a folder of .proto files and the plugins that generate code from them.
type job struct {
	dir     string
	files   []string
	plugins []plugin
}

type plugin struct {
	tool      string // as go tool takes it
	parameter string
}

func jobs() []job {
	own := []string{"common.proto", "tool.proto", "search.proto", "memory.proto", "event.proto"}
	work := []string{"message.proto", "plan.proto", "assistant.proto"} // apart, since two packages have a Resource
	vectors := []string{"vector.proto"}                                // likewise
	into := func(files []string, pkg string) string {
		client := "module=steward"
		for _, name := range files {
			client += ",M" + name + "=steward/test/rpc/" + pkg
		}
		return client
	}
	return []job{
		{"proto", own, []plugin{{"protoc-gen-go", into(own, "pb")}}},
		{"proto", vectors, []plugin{{"protoc-gen-go", into(vectors, "vectorpb")}}},
		{"proto", work, []plugin{{"protoc-gen-go", into(work, "workpb")}}},
		{"examples/hash", []string{"hash.proto"},
			[]plugin{{"protoc-gen-go", "module=steward"}, {"protoc-gen-go-grpc", "module=steward"}}},
	}
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return err
	}
	root := filepath.Dir(string(bytes.TrimSpace(out)))
	made, err := generate(ctx, root)
	if err != nil {
		return err
	}
	for name, content := range made {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the generated files by their paths below the module's root.
func generate(ctx context.Context, root string) (map[string][]byte, error) {
	made := map[string][]byte{}
	for _, j := range jobs() {
		files, err := compile(ctx, filepath.Join(root, j.dir), j.files)
		if err != nil {
			return nil, err
		}
		for _, p := range j.plugins {
			if err := p.run(ctx, root, files, j.files, made); err != nil {
				return nil, fmt.Errorf("%s: %w", p.tool, err)
			}
		}
	}
	return made, nil
}

// compile returns the files and everything that they import, each after its imports, as plugins need them.
func compile(ctx context.Context, dir string, names []string) ([]*descriptorpb.FileDescriptorProto, error) {
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	linked, err := c.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	return ordered(linked), nil
}

func ordered(linked linker.Files) []*descriptorpb.FileDescriptorProto {
	var out []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		out = append(out, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range linked {
		add(f)
	}
	return out
}

// run runs the plugin and adds its files to made.
func (p plugin) run(ctx context.Context, root string, files []*descriptorpb.FileDescriptorProto, names []string, made map[string][]byte) error {
	in, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{FileToGenerate: names, Parameter: &p.parameter, ProtoFile: files})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", p.tool)
	cmd.Dir, cmd.Stdin, cmd.Stderr = root, bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var answer pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return errors.New(*answer.Error)
	}
	for _, f := range answer.File {
		if made[f.GetName()] != nil {
			return fmt.Errorf("%s is made twice", f.GetName())
		}
		made[f.GetName()] = []byte(f.GetContent())
	}
	return nil
}
