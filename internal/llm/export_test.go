package llm

// Remembered returns how many "provider/model" names are kept.
func (m *Models) Remembered() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.direct)
}

// Users returns how many users the ledger remembers.
func (l *DayLedger) Users() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.users)
}

// Window returns the window of a model by its name alone.
func (k Known) Window(model string) int { return k.family(model).Window }
