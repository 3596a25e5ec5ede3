package page

// screens are all pages, and actions all that their buttons and forms do.
func (s *server) screens() []screen {
	return []screen{
		{"/{$}", (*visit).chatScreen},
		{"/chat/{conversation}", (*visit).chatScreen},
		{"/approvals", (*visit).approvalsScreen},
		{"/plans", (*visit).plansScreen},
		{"/plans/{id}", (*visit).planScreen},
		{"/activity", (*visit).activityScreen},
		{"/activity/requests/{id}", (*visit).timelineScreen},
		{"/activity/log", (*visit).workLogScreen},
		{"/activity/decisions", (*visit).decisionsScreen},
		{"/activity/usage", (*visit).usageScreen},
		{"/goals", (*visit).goalsScreen},
		{"/goals/{kind}/{id}", (*visit).effortScreen},
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
		"task-order":          (*visit).taskOrder,
		"task-cancel-ask":     (*visit).taskCancelAsk,
		"task-edit-ask":       (*visit).taskEditAsk,
		"task-edit":           (*visit).taskEdit,
		"task-messages":       (*visit).taskMessages,
		"task-answer":         (*visit).taskAnswer,
		"grant-edit-ask":      (*visit).grantEditAsk,
		"grant-edit":          (*visit).grantEdit,
		"grant-revoke-ask":    (*visit).grantRevokeAsk,
		"grant-revoke":        (*visit).grantRevoke,
		"model-call":          (*visit).modelCall,
		"why":                 (*visit).why,
		"intent-ask":          (*visit).intentAsk,
		"intent-do":           (*visit).intentDo,
		"effort-ask":          (*visit).effortAsk,
		"effort-save":         (*visit).effortSave,
		"effort-progress-ask": (*visit).effortProgressAsk,
		"effort-change":       (*visit).effortChange,
		"effort-remove-ask":   (*visit).effortRemoveAsk,
		"effort-remove":       (*visit).effortRemove,
	}
}
