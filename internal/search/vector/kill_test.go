package vector_test

func killed() bool { return false }
