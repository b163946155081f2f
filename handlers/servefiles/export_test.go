package servefiles

// For what a file tree cannot show: tests may run as root, which may read every file.
var (
	StatusOf       = statusOf
	Types          = types
	FolderLocation = folderLocation
)
