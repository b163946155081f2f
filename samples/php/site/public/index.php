<?php
// The front controller: it gets the paths that name no file.

declare(strict_types=1);

require __DIR__ . '/../page.php';

if (preg_match('~^/hello/([^/]+)$~D', path(), $match)) {
    page("Hello, {$match[1]}!", function () { ?>
<p>There is no file of this name. The path came to <code>index.php</code>, the front controller
(<code>try_files = "front"</code>), which found <code><?= h(path()) ?></code> in <code>REQUEST_URI</code>.</p>
<p>Others: <a href="/hello/%C3%9Cmit%20%26%20Zo%C3%AB">/hello/Ümit &amp; Zoë</a>, and
<a href="/no/such/page">a path that it does not know</a>, which is its own 404.</p>
<?php });
} elseif (path() === '/' || path() === '/index.php') {
    page('PHP on lwango', function () { ?>
<p>PHP <?= h(PHP_VERSION) ?> as <code><?= h(PHP_SAPI) ?></code>, behind lwango's module <code>fastcgi</code>. This very
page was made by process <?= getmypid() ?> of PHP-FPM.</p>
<dl>
<dt><a href="/form.php">Form</a></dt>
<dd>GET and POST, and what becomes of <code>&lt;b&gt;</code> in them.</dd>
<dt><a href="/upload.php">Upload</a></dt>
<dd>A file with a progress bar. It takes a process of PHP only once it is here as a whole.</dd>
<dt><a href="/clock.php">Clock</a></dt>
<dd>A script that sends an event every second, as they happen.</dd>
<dt><a href="/hello/world">Pretty URL</a></dt>
<dd>A path that is no file and is left to the front controller.</dd>
<dt><a href="/info.php">phpinfo</a></dt>
<dd>What PHP was told of the request, and how it is set up.</dd>
<dt><a href="/error.php">Error</a></dt>
<dd>An exception that nobody catches: a 500 here, its reason in the log of lwango.</dd>
<dt><a href="/style.css">style.css</a></dt>
<dd>A file beside the scripts, which lwango sends by itself.</dd>
</dl>
<?php });
} else {
    page('Not found', function () { ?>
<p>The front controller knows no <code><?= h(path()) ?></code>.</p>
<p><a href="/">Home</a></p>
<?php }, 404);
}
