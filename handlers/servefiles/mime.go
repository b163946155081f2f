package servefiles

import "strings"

// defaultType makes an unknown file a download. RFC 9110 section 8.3 would let the client guess the
// type.
const defaultType = "application/octet-stream"

// types are all types that the module knows by itself. It does not read the machine's own table
// (/etc/mime.types), so that a folder gets the same answers on every machine. Text is taken for
// UTF-8; formats that declare their encoding themselves (XML, JSON) have no charset, since the
// header field would overrule the declaration in the file (RFC 7303 section 3).
var types = map[string]string{
	// Pages and what they are made of.
	".html":        "text/html; charset=utf-8",
	".htm":         "text/html; charset=utf-8",
	".xhtml":       "application/xhtml+xml",
	".css":         "text/css; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".mjs":         "text/javascript; charset=utf-8",
	".wasm":        "application/wasm",
	".json":        "application/json",
	".map":         "application/json",
	".jsonld":      "application/ld+json",
	".webmanifest": "application/manifest+json",

	// Text and data.
	".txt":     "text/plain; charset=utf-8",
	".log":     "text/plain; charset=utf-8",
	".md":      "text/markdown; charset=utf-8",
	".csv":     "text/csv; charset=utf-8",
	".ics":     "text/calendar; charset=utf-8",
	".vcf":     "text/vcard; charset=utf-8",
	".vtt":     "text/vtt; charset=utf-8",
	".xml":     "application/xml",
	".xsl":     "application/xslt+xml",
	".rss":     "application/rss+xml",
	".atom":    "application/atom+xml",
	".geojson": "application/geo+json",
	".yaml":    "application/yaml",
	".yml":     "application/yaml",
	".toml":    "application/toml",

	// Images.
	".png":  "image/png",
	".apng": "image/apng",
	".jpg":  "image/jpeg",
	".jpeg": "image/jpeg",
	".gif":  "image/gif",
	".svg":  "image/svg+xml",
	".webp": "image/webp",
	".avif": "image/avif",
	".jxl":  "image/jxl",
	".heic": "image/heic",
	".ico":  "image/vnd.microsoft.icon",
	".bmp":  "image/bmp",
	".tif":  "image/tiff",
	".tiff": "image/tiff",

	// Fonts.
	".woff":  "font/woff",
	".woff2": "font/woff2",
	".ttf":   "font/ttf",
	".otf":   "font/otf",
	".ttc":   "font/collection",
	".eot":   "application/vnd.ms-fontobject",

	// Sound and film.
	".mp3":  "audio/mpeg",
	".m4a":  "audio/mp4",
	".aac":  "audio/aac",
	".flac": "audio/flac",
	".wav":  "audio/wav",
	".oga":  "audio/ogg",
	".ogg":  "audio/ogg",
	".opus": "audio/ogg",
	".weba": "audio/webm",
	".mp4":  "video/mp4",
	".m4v":  "video/mp4",
	".webm": "video/webm",
	".ogv":  "video/ogg",
	".mov":  "video/quicktime",
	".mkv":  "video/matroska",
	".avi":  "video/x-msvideo",
	".mpd":  "application/dash+xml",
	".m3u8": "application/vnd.apple.mpegurl",
	".ts":   "video/mp2t",

	// Documents.
	".pdf":  "application/pdf",
	".epub": "application/epub+zip",
	".rtf":  "application/rtf",
	".doc":  "application/msword",
	".xls":  "application/vnd.ms-excel",
	".ppt":  "application/vnd.ms-powerpoint",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".odt":  "application/vnd.oasis.opendocument.text",
	".ods":  "application/vnd.oasis.opendocument.spreadsheet",
	".odp":  "application/vnd.oasis.opendocument.presentation",

	// Archives. A .tar.gz is a gzip file to the client: with Content-Encoding, browsers would
	// unpack it.
	".zip": "application/zip",
	".gz":  "application/gzip",
	".tgz": "application/gzip",
	".bz2": "application/x-bzip2",
	".xz":  "application/x-xz",
	".zst": "application/zstd",
	".tar": "application/x-tar",
	".7z":  "application/x-7z-compressed",
	".jar": "application/java-archive",
}

// typeOf returns the media type for a file name by its extension, in any case; own types come
// before the module's.
func typeOf(name string, own map[string]string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	dot := strings.LastIndexByte(base, '.')
	if dot < 0 {
		return defaultType
	}
	ext := strings.ToLower(base[dot:])
	if t, ok := own[ext]; ok {
		return t
	}
	if t, ok := types[ext]; ok {
		return t
	}
	return defaultType
}
