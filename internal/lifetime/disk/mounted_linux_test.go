package disk

import "testing"

func TestMounted(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/proc": true, "/proc/self": false, t.TempDir(): false, "/proc/none": false} {
		if Mounted(path) != want {
			t.Errorf("%s is mounted: %v", path, !want)
		}
	}
}
