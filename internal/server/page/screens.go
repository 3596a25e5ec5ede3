package page

// screens are all pages, and actions all that their buttons and forms do.
func (s *server) screens() []screen {
	return []screen{
		{"/{$}", (*visit).chatScreen},
		{"/chat/{conversation}", (*visit).chatScreen},
		{"/search", (*visit).searchScreen},
		{"/archive", (*visit).archiveScreen},
		{"/approvals", (*visit).approvalsScreen},
	}
}

func (s *server) actions() map[string]action {
	return map[string]action{
		"send":                    (*visit).sendMessage,
		"withdraw":                (*visit).withdraw,
		"stop":                    (*visit).stop,
		"regenerate":              (*visit).regenerate,
		"branch":                  (*visit).switchBranch,
		"pick":                    (*visit).pick,
		"help":                    (*visit).help,
		"command":                 (*visit).command,
		"plan-change-ask":         (*visit).planChangeAsk,
		"older":                   (*visit).older,
		"rename-ask":              (*visit).renameAsk,
		"rename":                  (*visit).rename,
		"change-conversation":     (*visit).changeConversation,
		"delete-conversation-ask": (*visit).deleteConversationAsk,
		"delete-conversation":     (*visit).deleteConversation,
		"share":                   (*visit).share,
		"share-new":               (*visit).shareNew,
		"share-end":               (*visit).shareEnd,
		"answer":                  (*visit).answerQuestion,
		"deny-ask":                (*visit).denyAsk,
		"always":                  (*visit).always,
		"edit-arguments":          (*visit).editArguments,
	}
}
