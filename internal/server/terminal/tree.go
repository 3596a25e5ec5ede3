package terminal

// Limb is an item of a tree with what is drawn before it.
type Limb[T any] struct {
	Head string
	Item T
}

// Tree orders items so that each stands below its parent, and draws the lines
// between them. An item whose parent is not there stands at the root.
func Tree[T any](list []T, idOf, parentOf func(T) string) []Limb[T] {
	there := map[string]bool{}
	for _, x := range list {
		there[idOf(x)] = true
	}
	children := map[string][]T{}
	for _, x := range list {
		parent := parentOf(x)
		if !there[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], x)
	}
	var out []Limb[T]
	var draw func(x T, head, tail string)
	draw = func(x T, head, tail string) {
		out = append(out, Limb[T]{head, x})
		below := children[idOf(x)]
		for i, c := range below {
			if i < len(below)-1 {
				draw(c, tail+"├─ ", tail+"│  ")
			} else {
				draw(c, tail+"└─ ", tail+"   ")
			}
		}
	}
	for _, x := range children[""] {
		draw(x, "", "")
	}
	return out
}
