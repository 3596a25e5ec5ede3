package page

// screens are all pages, and actions all that their buttons and forms do.
func (s *server) screens() []screen {
	return []screen{
		{"/{$}", (*visit).chatScreen},
		{"/chat/{conversation}", (*visit).chatScreen},
		{"/approvals", (*visit).approvalsScreen},
		{"/goals", (*visit).goalsScreen},
		{"/goals/{kind}/{id}", (*visit).effortScreen},
		{"/jobs", (*visit).jobsScreen},
		{"/jobs/{name}", (*visit).jobScreen},
		{"/home", (*visit).homeScreen},
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
		"job-ask":             (*visit).jobAsk,
		"job-edit-ask":        (*visit).jobEditAsk,
		"job-preview":         (*visit).jobPreview,
		"job-save":            (*visit).jobSave,
		"job-run":             (*visit).jobRun,
		"job-pause":           (*visit).jobPause,
		"job-resume":          (*visit).jobResume,
		"job-remove-ask":      (*visit).jobRemoveAsk,
		"job-remove":          (*visit).jobRemove,
		"heartbeat-ask":       (*visit).heartbeatAsk,
		"heartbeat-on":        (*visit).heartbeatOn,
		"heartbeat-off-ask":   (*visit).heartbeatOffAsk,
		"heartbeat-off":       (*visit).heartbeatOff,
		"heartbeat-run":       (*visit).heartbeatRun,
		"home-do":             (*visit).homeDo,
		"home-set":            (*visit).homeSet,
		"home-mode":           (*visit).homeMode,
	}
}
