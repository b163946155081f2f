// Package mediatype tells media types by the names of files. Its functions may be called from any
// goroutine.
package mediatype

import "strings"

// Default makes an unknown file a download. RFC 9110 section 8.3 would let the client guess the
// type.
const Default = "application/octet-stream"

// Types are those that the package knows, by extension; nobody may change them. The package does
// not read the machine's own table (/etc/mime.types), so that a folder gets the same answers on
// every machine. Text is taken for UTF-8; formats that declare their encoding themselves (XML,
// JSON) have no charset, since the header field would overrule the declaration in the file (RFC
// 7303 section 3).
var Types = map[string]string{
	// Pages and what they are made of.
	".html":        "text/html; charset=utf-8",
	".htm":         "text/html; charset=utf-8",
	".xhtml":       "application/xhtml+xml",
	".xht":         "application/xhtml+xml",
	".shtml":       "text/html; charset=utf-8",
	".mathml":      "application/mathml+xml",
	".mml":         "application/mathml+xml",
	".css":         "text/css; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".mjs":         "text/javascript; charset=utf-8",
	".cjs":         "text/javascript; charset=utf-8",
	".wasm":        "application/wasm",
	".json":        "application/json",
	".map":         "application/json",
	".jsonld":      "application/ld+json",
	".json5":       "application/json5",
	".topojson":    "application/json",
	".ndjson":      "application/x-ndjson",
	".jsonl":       "application/jsonl",
	".webmanifest": "application/manifest+json",

	// Text and data.
	".txt":     "text/plain; charset=utf-8",
	".log":     "text/plain; charset=utf-8",
	".md":      "text/markdown; charset=utf-8",
	".csv":     "text/csv; charset=utf-8",
	".tsv":     "text/tab-separated-values; charset=utf-8",
	".srt":     "application/x-subrip",
	".asc":     "text/plain; charset=utf-8",
	".conf":    "text/plain; charset=utf-8",
	".diff":    "text/plain; charset=utf-8",
	".patch":   "text/plain; charset=utf-8",
	".rst":     "text/plain; charset=utf-8",
	".tex":     "application/x-tex",
	".bib":     "application/x-bibtex",
	".ttl":     "text/turtle; charset=utf-8",
	".n3":      "text/n3; charset=utf-8",
	".nt":      "application/n-triples",
	".nq":      "application/n-quads",
	".trig":    "application/trig",
	".rdf":     "application/rdf+xml",
	".owl":     "application/rdf+xml",
	".rq":      "application/sparql-query",
	".sql":     "application/sql",
	".graphql": "application/graphql",
	".eml":     "message/rfc822",
	".mbox":    "application/mbox",
	".ics":     "text/calendar; charset=utf-8",
	".vcf":     "text/vcard; charset=utf-8",
	".vcard":   "text/vcard; charset=utf-8",
	".vtt":     "text/vtt; charset=utf-8",
	".xml":     "application/xml",
	".xsl":     "application/xslt+xml",
	".xslt":    "application/xslt+xml",
	".xsd":     "application/xml",
	".dtd":     "application/xml-dtd",
	".wsdl":    "application/wsdl+xml",
	".xspf":    "application/xspf+xml",
	".opml":    "text/x-opml; charset=utf-8",
	".kml":     "application/vnd.google-earth.kml+xml",
	".kmz":     "application/vnd.google-earth.kmz",
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
	".heif": "image/heif",
	".jp2":  "image/jp2",
	".jpe":  "image/jpeg",
	".jfif": "image/jpeg",
	".jxr":  "image/jxr",
	".cur":  "image/vnd.microsoft.icon",
	".psd":  "image/vnd.adobe.photoshop",
	".djvu": "image/vnd.djvu",
	".tga":  "image/x-tga",
	".ktx2": "image/ktx2",
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
	".m4b":  "audio/mp4",
	".mp2":  "audio/mpeg",
	".mid":  "audio/midi",
	".midi": "audio/midi",
	".aif":  "audio/aiff",
	".aiff": "audio/aiff",
	".amr":  "audio/amr",
	".mka":  "audio/matroska",
	".ra":   "audio/vnd.rn-realaudio",
	".aac":  "audio/aac",
	".flac": "audio/flac",
	".wav":  "audio/wav",
	".oga":  "audio/ogg",
	".ogg":  "audio/ogg",
	".opus": "audio/ogg",
	".weba": "audio/webm",
	".mp4":  "video/mp4",
	".m4v":  "video/mp4",
	".mpeg": "video/mpeg",
	".mpg":  "video/mpeg",
	".m2ts": "video/mp2t",
	".3gp":  "video/3gpp",
	".3g2":  "video/3gpp2",
	".m4s":  "video/iso.segment",
	".flv":  "video/x-flv",
	".wmv":  "video/x-ms-wmv",
	".asf":  "video/x-ms-asf",
	".webm": "video/webm",
	".ogv":  "video/ogg",
	".mov":  "video/quicktime",
	".mkv":  "video/matroska",
	".avi":  "video/x-msvideo",

	// Models, which browsers draw.
	".gltf": "model/gltf+json",
	".glb":  "model/gltf-binary",
	".obj":  "model/obj",
	".mtl":  "model/mtl",
	".stl":  "model/stl",
	".3mf":  "model/3mf",
	".usdz": "model/vnd.usdz+zip",

	// Lists of what to play.
	".m3u":  "audio/mpegurl",
	".mpd":  "application/dash+xml",
	".m3u8": "application/vnd.apple.mpegurl",
	".ts":   "video/mp2t",

	// Documents.
	".pdf":  "application/pdf",
	".epub": "application/epub+zip",
	".ps":   "application/postscript",
	".eps":  "application/postscript",
	".ai":   "application/postscript",
	".mobi": "application/x-mobipocket-ebook",
	".xps":  "application/oxps",
	".oxps": "application/oxps",
	".rtf":  "application/rtf",
	".doc":  "application/msword",
	".xls":  "application/vnd.ms-excel",
	".ppt":  "application/vnd.ms-powerpoint",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".dotx": "application/vnd.openxmlformats-officedocument.wordprocessingml.template",
	".xltx": "application/vnd.openxmlformats-officedocument.spreadsheetml.template",
	".ppsx": "application/vnd.openxmlformats-officedocument.presentationml.slideshow",
	".odt":  "application/vnd.oasis.opendocument.text",
	".ods":  "application/vnd.oasis.opendocument.spreadsheet",
	".odp":  "application/vnd.oasis.opendocument.presentation",
	".odg":  "application/vnd.oasis.opendocument.graphics",
	".odf":  "application/vnd.oasis.opendocument.formula",

	// Archives. A .tar.gz is a gzip file to the client: with Content-Encoding, browsers would
	// unpack it.
	".zip":  "application/zip",
	".gz":   "application/gzip",
	".tgz":  "application/gzip",
	".bz2":  "application/x-bzip2",
	".xz":   "application/x-xz",
	".zst":  "application/zstd",
	".tar":  "application/x-tar",
	".7z":   "application/x-7z-compressed",
	".rar":  "application/vnd.rar",
	".br":   "application/x-brotli",
	".lz4":  "application/x-lz4",
	".lz":   "application/x-lzip",
	".cpio": "application/x-cpio",
	".iso":  "application/x-iso9660-image",
	".deb":  "application/vnd.debian.binary-package",
	".rpm":  "application/x-rpm",
	".apk":  "application/vnd.android.package-archive",
	".xpi":  "application/x-xpinstall",
	".crx":  "application/x-chrome-extension",
	".dmg":  "application/x-apple-diskimage",
	".exe":  "application/vnd.microsoft.portable-executable",
	".msi":  "application/x-msi",
	".swf":  "application/vnd.adobe.flash.movie",

	// Certificates and signatures.
	".pem":     "application/x-pem-file",
	".crt":     "application/x-x509-ca-cert",
	".cer":     "application/pkix-cert",
	".crl":     "application/pkix-crl",
	".p7s":     "application/pkcs7-signature",
	".p12":     "application/x-pkcs12",
	".sig":     "application/pgp-signature",
	".torrent": "application/x-bittorrent",
	".jar":     "application/java-archive",
}

// Of returns the media type for a file name by its extension, in any case; own types come
// before the package's.
func Of(name string, own map[string]string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	dot := strings.LastIndexByte(base, '.')
	if dot < 0 {
		return Default
	}
	ext := strings.ToLower(base[dot:])
	if t, ok := own[ext]; ok {
		return t
	}
	if t, ok := Types[ext]; ok {
		return t
	}
	return Default
}
