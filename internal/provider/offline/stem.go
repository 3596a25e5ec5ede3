package offline

import "strings"

// irregular words whose stem no suffix rule finds.
var irregular = map[string]string{
	"sent": "send", "bought": "buy", "sold": "sell", "paid": "pay", "made": "make",
	"found": "find", "gave": "give", "given": "give", "got": "get", "told": "tell",
	"said": "say", "ran": "run", "went": "go", "took": "take", "taken": "take",
	"wrote": "write", "written": "write", "left": "left", "kept": "keep", "spent": "spend",
	"held": "hold", "built": "build", "lent": "lend", "people": "person", "men": "man",
	"women": "woman", "children": "child", "leaves": "leaf", "feet": "foot", "mice": "mouse",
	"multiplication": "multiply", "multiplicand": "multiply", "subtraction": "subtract",
	"division": "divide", "addition": "add", "additional": "additional", "sums": "sum",
	"conversion": "convert", "deletion": "delete", "removal": "remove", "length": "long",
	"height": "high", "width": "wide", "weight": "weigh", "depth": "deep", "warmth": "warm",
	"news": "news", "does": "do", "done": "do", "this": "this", "is": "is", "has": "has",
	"was": "was", "its": "its", "us": "us", "yes": "yes", "gas": "gas", "bus": "bus",
	"lens": "lens", "status": "status", "always": "always", "thing": "thing", "string": "string",
	"morning": "morning", "evening": "evening", "during": "during", "something": "something",
	"red": "red", "bed": "bed", "speed": "speed", "need": "need", "feed": "feed", "seed": "seed",
	"address": "address", "timer": "timer", "times": "times", "axes": "axis", "indices": "index",
	"dying": "die", "lying": "lie", "tying": "tie",
}

// stem reduces a lower-case word to a form that its inflections and common
// derivations share. It is deliberately lighter than Porter's algorithm: what
// it leaves apart, the index still joins by a shared beginning.
func stem(w string) string {
	if s, ok := irregular[w]; ok {
		w = s
	}
	if len(w) <= 3 {
		return w
	}
	w = plural(w)
	w = inflection(w)
	w = derivation(w)
	if len(w) > 3 && w[len(w)-1] == 'e' {
		w = w[:len(w)-1]
	}
	if len(w) > 2 && w[len(w)-1] == 'y' && !vowel(w[len(w)-2]) {
		w = w[:len(w)-1] + "i"
	}
	return w
}

func plural(w string) string {
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"),
		strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "zzes"), strings.HasSuffix(w, "toes"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "s"):
		return w[:len(w)-1]
	}
	return w
}

func inflection(w string) string {
	for _, suffix := range []string{"ing", "ed"} {
		base, ok := strings.CutSuffix(w, suffix)
		if !ok || len(base) < 3 || !hasVowel(base) {
			continue
		}
		if n := len(base); base[n-1] == base[n-2] && !strings.ContainsRune("lsz", rune(base[n-1])) {
			return base[:n-1]
		}
		if strings.HasSuffix(base, "i") {
			return base[:len(base)-1] + "y"
		}
		return base
	}
	return w
}

func derivation(w string) string {
	for _, s := range []struct {
		suffix string
		keep   int
		add    string
	}{
		{"ization", 3, "iz"}, {"isation", 3, "is"}, {"ation", 4, ""}, {"ment", 3, ""}, {"ness", 4, ""},
		{"ally", 4, ""}, {"ly", 5, ""}, {"ate", 5, ""}, {"at", 5, ""}, {"ion", 4, ""}, {"ance", 5, ""}, {"ence", 5, ""},
	} {
		if base, ok := strings.CutSuffix(w, s.suffix); ok && len(base) >= s.keep {
			return base + s.add
		}
	}
	return w
}

func vowel(c byte) bool { return strings.IndexByte("aeiouy", c) >= 0 || c >= 0x80 }

func hasVowel(w string) bool {
	for i := range len(w) {
		if vowel(w[i]) {
			return true
		}
	}
	return false
}
