package page

// screens are all pages, and actions all that their buttons and forms do.
func (s *server) screens() []screen {
	return []screen{
		{"/{$}", (*visit).chatScreen},
		{"/chat/{conversation}", (*visit).chatScreen},
		{"/approvals", (*visit).approvalsScreen},
		{"/goals", (*visit).goalsScreen},
		{"/goals/{kind}/{id}", (*visit).effortScreen},
		{"/memory", (*visit).memoryScreen},
		{"/memory/facts/{fact}", (*visit).factScreen},
		{"/memory/profile", (*visit).profileScreen},
		{"/memory/graph", (*visit).graphScreen},
		{"/documents", (*visit).documentsScreen},
		{"/documents/{document}", (*visit).documentScreen},
		{"/chat/{conversation}/context", (*visit).contextScreen},
	}
}

func (s *server) actions() map[string]action {
	return map[string]action{
		"send":                (*visit).sendMessage,
		"stop":                (*visit).stop,
		"regenerate":          (*visit).regenerate,
		"branch":              (*visit).switchBranch,
		"models":              (*visit).models,
		"older":               (*visit).older,
		"rename-ask":          (*visit).renameAsk,
		"rename":              (*visit).rename,
		"delete-conversation": (*visit).deleteConversation,
		"answer":              (*visit).answerQuestion,
		"deny-ask":            (*visit).denyAsk,
		"always":              (*visit).always,
		"edit-arguments":      (*visit).editArguments,
		"effort-ask":          (*visit).effortAsk,
		"effort-save":         (*visit).effortSave,
		"effort-progress-ask": (*visit).effortProgressAsk,
		"effort-change":       (*visit).effortChange,
		"effort-remove-ask":   (*visit).effortRemoveAsk,
		"effort-remove":       (*visit).effortRemove,
		"fact-ask":            (*visit).factAsk,
		"fact-save":           (*visit).factSave,
		"fact-trust":          (*visit).factTrust,
		"fact-forget-ask":     (*visit).factForgetAsk,
		"fact-forget":         (*visit).factForget,
		"facts-changed":       (*visit).factsChanged,
		"fact-undo":           (*visit).factUndo,
		"profile-save":        (*visit).profileSave,
		"documents":           (*visit).documentsShown,
		"document-remove-ask": (*visit).documentRemoveAsk,
		"document-remove":     (*visit).documentRemove,
		"graph-query":         (*visit).graphQuery,
		"graph-import-ask":    (*visit).graphImportAsk,
		"graph-import":        (*visit).graphImport,
	}
}
