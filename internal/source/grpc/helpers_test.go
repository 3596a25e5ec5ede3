package grpc

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"steward/test/must"
)

func valueOf(v any) protoreflect.Value { return protoreflect.ValueOf(v) }

func read(t testing.TB, path string) string {
	t.Helper()
	b := must.Get(os.ReadFile(path))
	return string(b)
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}
