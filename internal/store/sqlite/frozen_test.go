package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"testing"
)

// Existing databases contain the numbers of the kinds.
func TestKindsOfNamesStayAsTheyAre(t *testing.T) {
	for want, kind := range map[int64]int64{1: spaceName, 2: actorName, 3: stateName, 4: termName, 5: typeName} {
		if kind != want {
			t.Errorf("the kind %d has become %d", want, kind)
		}
	}
}

// Existing databases were made by the migrations, and their bodies were packed
// with the dictionary. A file that was in a version of Steward never changes; a
// change of the schema is a new migration, and other words are a new dictionary.
func TestMigrationsAndDictionariesStayAsTheyAre(t *testing.T) {
	want := map[string]string{
		"migrations/001.sql": "8bdf5f8c10446137bf5084ef4ae16f8ff58d8facbdabafa01649508a43180f39",
		"migrations/002.sql": "ae6d0aa59ec7431f3cba31d8fb68a33bd462271acc6a831d77997970756f551a",
		"migrations/003.sql": "f813d8ac75ae302e09b5df7b896c8b9a2992b8e05e9ee35d5bdec5d2dced0ac7",
	}
	names, err := fs.Glob(migrationFiles, "migrations/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		body, err := migrationFiles.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		switch hash, frozen := want[name]; {
		case !frozen:
			t.Errorf("%s is new: add its hash here in the commit that adds it: %s", name, hashOf(body))
		case hash != hashOf(body):
			t.Errorf("%s has changed, and databases were made with it as it was; write a new migration", name)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is gone, and new databases would lack what it makes", name)
	}
	if got := hashOf(dictionary1); got != "6ede7d7c4a913eedd76bd0560d248b17050e985ab97fe62434da7473397d9032" {
		t.Errorf("the dictionary has changed, and what was packed with it cannot be read: %s", got)
	}
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
