package page

// screens are all pages, and actions all that their buttons and forms do.
func (s *server) screens() []screen {
	return []screen{
		{"/{$}", (*visit).chatScreen},
		{"/chat/{conversation}", (*visit).chatScreen},
		{"/search", (*visit).searchScreen},
		{"/archive", (*visit).archiveScreen},
		{"/approvals", (*visit).approvalsScreen},
		{"/goals", (*visit).goalsScreen},
		{"/goals/{kind}/{id}", (*visit).effortScreen},
	}
}

func (s *server) actions() map[string]action {
	return map[string]action{
		"send":                    (*visit).sendMessage,
		"stop":                    (*visit).stop,
		"regenerate":              (*visit).regenerate,
		"branch":                  (*visit).switchBranch,
		"older":                   (*visit).older,
		"rename-ask":              (*visit).renameAsk,
		"rename":                  (*visit).rename,
		"delete-conversation":     (*visit).deleteConversation,
		"answer":                  (*visit).answerQuestion,
		"deny-ask":                (*visit).denyAsk,
		"always":                  (*visit).always,
		"edit-arguments":          (*visit).editArguments,
		"effort-ask":              (*visit).effortAsk,
		"effort-save":             (*visit).effortSave,
		"effort-progress-ask":     (*visit).effortProgressAsk,
		"effort-change":           (*visit).effortChange,
		"effort-remove-ask":       (*visit).effortRemoveAsk,
		"effort-remove":           (*visit).effortRemove,
		"withdraw":                (*visit).withdraw,
		"pick":                    (*visit).pick,
		"help":                    (*visit).help,
		"command":                 (*visit).command,
		"plan-change-ask":         (*visit).planChangeAsk,
		"change-conversation":     (*visit).changeConversation,
		"delete-conversation-ask": (*visit).deleteConversationAsk,
		"share":                   (*visit).share,
		"share-new":               (*visit).shareNew,
		"share-end":               (*visit).shareEnd,
	}
}
