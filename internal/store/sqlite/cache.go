package sqlite

// cache keeps recently used values: at least the newest size values, and at most
// twice as many after age.
type cache[K comparable, V any] struct {
	size     int
	now, old map[K]V
}

func newCache[K comparable, V any](size int) cache[K, V] {
	return cache[K, V]{size: size, now: make(map[K]V), old: make(map[K]V)}
}

func (c *cache[K, V]) get(k K) (V, bool) {
	v, ok := c.now[k]
	if !ok {
		if v, ok = c.old[k]; ok {
			c.now[k] = v
		}
	}
	return v, ok
}

func (c *cache[K, V]) put(k K, v V) { c.now[k] = v }

// rotateIfFull drops the older half if the newer one is full, and reports whether it did.
// Nothing is dropped at any other time.
func (c *cache[K, V]) rotateIfFull() bool {
	if len(c.now) < c.size {
		return false
	}
	c.rotate()
	return true
}

func (c *cache[K, V]) rotate() {
	c.now, c.old = c.old, c.now
	clear(c.now)
}

// has reports whether there is a value, without counting as a use of it.
func (c *cache[K, V]) has(k K) bool {
	_, ok := c.now[k]
	if !ok {
		_, ok = c.old[k]
	}
	return ok
}

func (c *cache[K, V]) clear() {
	clear(c.now)
	clear(c.old)
}
